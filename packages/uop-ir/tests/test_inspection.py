"""What people look at: one line, a tree, DOT and SVG;
bounded, the same in every process, and of any graph.
"""

import re
import subprocess
import sys
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uop_ir import Ops, UOp, dtypes, index, parse_uir, to_dot, to_svg, toposort

F32 = dtypes.f32
GEMM = parse_uir("""\
%0 = buffer 16 : dtype=f32 slot=700000
%1 = buffer 16 : dtype=f32 slot=700001
%2 = reshape %0, (4, 1, 4)
%3 = reshape %1, (4, 4)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 4, 4)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
""").root
OUT, N = UOp.param(0, 4, F32), UOp.variable("n", 1, 4)
R = UOp.range(N, 0)
X = OUT.index(R).load()
LOOP = UOp.sink(OUT.index(R, R < 3).store(X * 2.0 + X).end(R))
SVG = "{http://www.w3.org/2000/svg}"


def chain(length: int) -> UOp:
    x = UOp.const(F32, 1.0)
    for i in range(length):
        x = x * x if i % 2 else -x
    return x


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (GEMM, "reduce(mul(reshape(buffer700000, (4, 1, 4)), reshape(..., (1, 4, 4))), op=add, pop=1) : f32(4, 4)"),
        (LOOP, "sink(end(store(index(param0, range0, ...), add(..., ...)), range0)) : void"),
        (R < 3, "cmplt(range0, 3) : bool()"),
        (UOp.const(dtypes.bool, True), "true : bool()"),
        (-UOp.const(F32, -0.0), "neg(-0.0) : f32()"),
        (UOp.param(3, 2, F32).cast(dtypes.i8), "cast(param3, dtype=i8) : i8(2,)"),
        (OUT.shrink(((0, N),)), "shrink(param0, ((0, n),)) : f32(n,)"),
        (UOp(Ops.STACK, tuple(index(i) for i in range(50))), "stack(0, 1, 2, 3, ...) : index(50,)"),
        (UOp.sink(), "sink() : void"),
    ],
)  # fmt: skip
def test_a_node_is_one_line(node: UOp, line: str) -> None:
    assert str(node) == line
    assert f"{node}" == line
    assert not re.search(r"0x[0-9a-f]{6}", repr(node))


def test_a_tree_shows_what_is_shared_once() -> None:
    assert LOOP.tree() == (
        "sink : void\n"
        "└─ end : void\n"
        "   ├─ store : void\n"
        "   │  ├─ index : f32()\n"
        "   │  │  ├─ param 4 slot=0 : f32(4,)\n"
        "   │  │  ├─ #1 range id=0 axis=loop : index()\n"
        "   │  │  │  └─ param name=n min=1 max=4 : index()\n"
        "   │  │  └─ cmplt : bool()\n"
        "   │  │     ├─ #1 range, as above\n"
        "   │  │     └─ const 3 : index()\n"
        "   │  └─ add : f32()\n"
        "   │     ├─ mul : f32()\n"
        "   │     │  ├─ #2 load : f32()\n"
        "   │     │  │  └─ index : f32()\n"
        "   │     │  │     ├─ param 4 slot=0 : f32(4,)\n"
        "   │     │  │     └─ #1 range, as above\n"
        "   │     │  └─ const 2.0 : f32()\n"
        "   │     └─ #2 load, as above\n"
        "   └─ #1 range, as above"
    )
    assert LOOP.tree(limit=3).splitlines()[2:] == ["   ├─ store : void", "... 11 more nodes"]
    assert len(LOOP.toposort()) == 14


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_graph_is_shown_whole(data: st.DataObject, graphs: Any) -> None:
    """A tree has each node that has operands once; a picture has each node once, and each edge."""
    root = data.draw(graphs)
    order = root.toposort()
    shown = [line for line in root.tree(10**4).splitlines() if not line.endswith("as above")]
    wanted = Counter(node.op.value for node in order if node.src)
    found = Counter(re.findall(r"^[ │├└─]*(?:#\d+ )?(\w+)", "\n".join(shown), re.MULTILINE))
    assert {op: found[op] for op in wanted} == wanted
    assert "\n" not in str(root)
    assert len(str(root)) < 400
    svg = ElementTree.fromstring(to_svg(root))  # noqa: S314
    edges = sum(len(node.src) for node in order)
    assert len(svg.findall(f"{SVG}rect")) == len(order)
    assert len(svg.findall(f"{SVG}line")) == edges
    dot = to_dot(root)
    assert dot.count(" -> ") == edges
    assert dot.count("[label=") == len(order)


def test_the_picture_has_room_for_each_node() -> None:
    for root in (GEMM, LOOP, chain(50)):
        svg = ElementTree.fromstring(to_svg(root))  # noqa: S314
        boxes = [
            tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height"))
            for r in svg.findall(f"{SVG}rect")
        ]
        for i, (x, y, width, height) in enumerate(boxes):
            for x2, y2, width2, height2 in boxes[:i]:
                assert x + width < x2 or x2 + width2 < x or y + height < y2 or y2 + height2 < y
        left, top, wide, high = map(float, svg.get("viewBox", "").split())
        for x, y, width, height in boxes:
            assert left <= x
            assert x + width <= left + wide
            assert top <= y
            assert y + height <= top + high
        for line in svg.findall(f"{SVG}line"):
            assert float(line.get("y1", "")) < float(line.get("y2", ""))


def test_text_is_escaped() -> None:
    x = UOp(Ops.COPY, (UOp.const(F32, 1.0),), 'a"<b>&\\\x07\n')
    texts = [t.text for t in ElementTree.fromstring(to_svg(x)).findall(f"{SVG}text")]  # noqa: S314
    assert texts == ["const 1.0", "f32()", 'copy device="a\\"<b>&\\\\\\u0007\\n"', "f32()"]
    assert '\\"a\\\\\\"<b>&' in to_dot(x)
    assert x.tree().count("\n") == 1


@pytest.mark.net
@pytest.mark.parametrize("length", [10_000, 100_000])
def test_deep_graphs_are_shown_too(length: int) -> None:
    x = chain(length)
    assert len(str(x)) < 200
    lines = x.tree(60).splitlines()
    assert lines[-1] == f"... {length + 1 - 51} more nodes"  # 50 levels below the root
    assert len(x.tree(10**6)) < 10_000
    html = x._repr_html_()
    assert html.startswith(f"<p>{length + 1} nodes: {length // 2} ")
    assert len(html) < 10_000
    if length == 10_000:
        ElementTree.fromstring(to_svg(x))  # noqa: S314
        assert to_dot(x).count(" -> ") == length * 3 // 2


def test_a_notebook_shows_a_small_graph_as_a_picture() -> None:
    assert GEMM._repr_html_() == to_svg(GEMM)


def test_what_is_long_is_cut() -> None:
    wide = UOp.const(F32, 1.0).reshape((1,) * 31).expand((10**900,) * 31)
    device = UOp(Ops.COPY, (wide,), "x" * 10_000)
    named = UOp.variable("n" * 10_000, 1, 10**999) * 10**900
    for node in (wide, device, named, UOp.sink(*[named + i for i in range(5000)])):
        assert len(str(node)) < 400
        assert max(map(len, node.tree(20).splitlines())) < 400


def test_the_same_in_another_process() -> None:
    text = "".join(f"%{i} = param 4 : dtype=f32 slot={i}\n" for i in range(5))
    text += "%5 = add %0, %1\n%6 = add %2, %3\n%7 = mul %5, %6\n%8 = sink %7, %4, %5\n"
    script = f"from uop_ir import *; r = parse_uir({text!r}).root; print(r, r.tree(), to_svg(r), to_dot(r))"
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    root = parse_uir(text).root
    assert there == f"{root} {root.tree()} {to_svg(root)} {to_dot(root)}\n"
    assert len(toposort([root])) == 9
