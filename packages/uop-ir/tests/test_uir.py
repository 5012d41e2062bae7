"""The `.uir` text: what is printed reads back to the same nodes, and what is wrong is said with its place."""

import copy
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uop_ir import (
    AddrSpace,
    AxisType,
    Const,
    Level,
    Ops,
    ParseError,
    Span,
    UOp,
    UopError,
    VerifyError,
    dtypes,
    format_uir,
    parse_uir,
    read_uir,
    toposort,
    verify,
)

GEMM = """\
%0 = buffer 16 : dtype=f32 slot=0
%1 = buffer 16 : dtype=f32 slot=1
%2 = reshape %0, (4, 1, 4)
%3 = reshape %1, (4, 4)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 4, 4)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
"""

# Each spells its ops in the canonical way; together, all ops.
TENSOR = """\
%0 = param : dtype=index name=n min=1 max=64
%1 = param 64 : dtype=f32 slot=0
%2 = const 0 : dtype=index
%3 = shrink %1, ((0, %0),)
%4 = reshape %3, (%0, 1)
%5 = expand %4, (%0, 4)
%6 = pad %5, ((0, 0), (1, %0))
%7 = flip %5, (true, false)
%8 = stack %5, %7
%9 = const -0x1.8p+1 : dtype=f32
%10 = const nan : dtype=f32 bits=0xffc00001
%11 = mul %8, %9
%12 = mulacc %11, %9, %10
%13 = recip %12
%14 = sqrt %13
%15 = exp2 %14
%16 = log2 %15
%17 = sin %16
%18 = trunc %17
%19 = neg %18
%20 = cmplt %19, %9
%21 = where %20, %19, %9
%22 = cast %21 : dtype=f64
%23 = bitcast %22 : dtype=i64
%24 = const true : dtype=bool
%25 = copy %23 : device="CUDA:1"
%26 = stage %25 : addrspace=local
%27 = sink %26, %6, %24, %2
"""
LOOP = """\
%0 = param 12 : dtype=f32 slot=0
%1 = param 4 : dtype=f32 slot=1
%2 = param : dtype=f32 name=rate
%3 = const 4 : dtype=index
%4 = range %3 : id=0 axis=loop
%5 = const 3 : dtype=index
%6 = range %5 : id=1 axis=reduce
%7 = mul %4, %5
%8 = add %7, %6
%9 = cmplt %6, %4
%10 = index %0, %8, %9
%11 = load %10
%12 = mul %11, %2
%13 = reduce %12, %6 : op=max pop=0
%14 = alloc 1 : dtype=f32 slot=0 addrspace=reg
%15 = const 0 : dtype=index
%16 = index %14, %15
%17 = store %16, %13
%18 = after %16, %17
%19 = load %18
%20 = index %1, %4
%21 = store %20, %19
%22 = end %21, %4
%23 = sink %22
"""
LINEAR = """\
%0 = param 8 : dtype=i32 slot=0
%1 = const 8 : dtype=index
%2 = special %1 : name=lidx0
%3 = const 3 : dtype=index
%4 = cmplt %2, %3
%5 = index %0, %2
%6 = if %4
%7 = const -2147483648 : dtype=i32
%8 = store %5, %7
%9 = endif %6
%10 = barrier %8
%11 = const 1 : dtype=i32
%12 = stack %11, %7
%13 = wmma %12, %12, %12 : name=m16n8k32_s8
%14 = sink %8, %9, %10, %13
"""
CALLED = """\
%0 = param 4 : dtype=f32 slot=0
%1 = param 4 : dtype=f32 slot=1
%2 = add %1, %1
%3 = store %0, %2
%4 = sink %3
%5 = buffer 4 : dtype=f32 slot=900001
%6 = buffer 4 : dtype=f32 slot=900002
%7 = call %4, %5, %6
%8 = after %5, %7
"""
INTEGERS = """\
%0 = const 7 : dtype=u8
%1 = const 2 : dtype=u8
%2 = add %0, %1
%3 = sub %2, %1
%4 = div %3, %1
%5 = mod %4, %1
%6 = max %5, %1
%7 = and %6, %0
%8 = or %7, %1
%9 = xor %8, %0
%10 = shl %9, %1
%11 = shr %10, %1
%12 = cmpne %11, %0
%13 = cmpeq %11, %1
%14 = sink %12, %13
"""
SAMPLES = {
    "gemm": GEMM,
    "tensor": TENSOR,
    "loop": LOOP,
    "linear": LINEAR,
    "called": CALLED,
    "integers": INTEGERS,
}


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_canonical_text_reads_and_prints_the_same(text: str) -> None:
    parsed = parse_uir(text)
    assert format_uir(parsed.nodes) == text
    assert [node.op.value for node in parsed.nodes] == [line.split()[2] for line in text.splitlines()]
    again = format_uir(parsed.root)
    assert parse_uir(again).root is parsed.root
    assert format_uir(parse_uir(again).root) == again


def test_samples_spell_every_op() -> None:
    spelled = {node.op for text in SAMPLES.values() for node in parse_uir(text).nodes}
    assert spelled == set(Ops)


def test_gemm_is_the_graph_that_it_says() -> None:
    out = parse_uir(GEMM).root
    a, b = parse_uir(GEMM).nodes[:2]
    wanted = (a.reshape((4, 1, 4)) * b.reshape((4, 4)).permute((1, 0)).reshape((1, 4, 4))).reduce(Ops.ADD, 1)
    assert out is wanted
    assert parse_uir(GEMM).outputs == (wanted,)


def test_comments_blanks_headers_and_names_are_free() -> None:
    text = "#!uir 1\r\n\r\n# a comment\r\n\t%07=buffer 16:dtype = f32  slot=0 # here\r\n  %x".replace(
        "  %x", ""
    )
    (node,) = parse_uir(text).nodes
    assert node.op is Ops.BUFFER
    assert format_uir(node) == "%0 = buffer 16 : dtype=f32 slot=0\n"


def test_outputs_are_the_operands_of_the_last_sink_or_the_unused() -> None:
    two = "%0 = const 1 : dtype=i32\n%1 = neg %0\n%2 = add %0, %0\n"
    without = parse_uir(two)
    assert without.outputs == without.nodes[1:]
    assert without.root is UOp.sink(*without.nodes[1:])
    sunk = parse_uir(f"{two}%3 = sink %2\n")
    assert sunk.outputs == (sunk.nodes[2],)
    assert sunk.root is sunk.nodes[3]
    called = parse_uir(CALLED)
    assert called.outputs == (called.nodes[-1],)


def test_a_node_spelled_twice_is_one_node_in_two_places() -> None:
    parsed = parse_uir("%0 = barrier\n%1 = barrier\n%2 = sink %0, %1\n")
    assert parsed.nodes[0] is parsed.nodes[1]
    assert len(format_uir(parsed.nodes).splitlines()) == 3
    assert parsed.spans[parsed.nodes[0]].line == 1


def test_spans_are_the_places_of_the_ops() -> None:
    parsed = parse_uir(GEMM, "gemm.uir")
    assert parsed.spans[parsed.root] == Span("gemm.uir", 8, 6, "%7 = reduce %6 : op=add pop=1")


# constants


@pytest.mark.parametrize(
    ("spelled", "bits", "printed"),
    [
        ("const 3 : dtype=f32", 0x40400000, "const 0x1.8p+1 : dtype=f32"),
        ("const -0.0 : dtype=f32", 0x80000000, "const -0x0p+0 : dtype=f32"),
        ("const 1e-45 : dtype=f32", 1, "const 0x1p-149 : dtype=f32"),
        ("const .1 : dtype=f64", 0x3FB999999999999A, "const 0x1.999999999999ap-4 : dtype=f64"),
        ("const -inf : dtype=bf16", 0xFF80, "const -inf : dtype=bf16"),
        ("const nan : dtype=f16", 0x7E00, "const nan : dtype=f16"),
        ("const nan : dtype=f16 bits=0xfe01", 0xFE01, "const nan : dtype=f16 bits=0xfe01"),
        ("const 0x1.002p0 : dtype=bf16", 0x3F80, "const 0x1p+0 : dtype=bf16"),
        ("const +5 : dtype=i8", 5, "const 5 : dtype=i8"),
        ("const 18446744073709551615 : dtype=u64", 2**64 - 1, "const 18446744073709551615 : dtype=u64"),
        ("const false : dtype=bool", 0, "const false : dtype=bool"),
        (
            "const -9223372036854775809 : dtype=index",
            -(2**63) - 1,
            "const -9223372036854775809 : dtype=index",
        ),
    ],
)
def test_constants_keep_their_bits(spelled: str, bits: int, printed: str) -> None:
    node = parse_uir(f"%0 = {spelled}").root
    assert node.arg.bits == bits
    assert format_uir(node) == f"%0 = {printed}\n"


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_16_bit_floats_read_back(dtype: Any) -> None:
    nodes = [UOp(Ops.CONST, (), Const(dtype, bits)) for bits in range(0, 1 << 16, 17)]
    assert parse_uir(format_uir(nodes)).nodes == tuple(nodes)


# errors


def test_the_error_of_the_style_guide() -> None:
    text = "# C = A @ B for 4x4 matrices, from movement ops only\n" + GEMM.replace("pop=1", "pop=4")
    with pytest.raises(VerifyError) as caught:
        parse_uir(text, "gemm.uir")
    assert str(caught.value) == (
        "gemm.uir:9:29: error: reduce pops 4 axes of a value of shape (4, 4, 4)\n"
        "  %7 = reduce %6 : op=add pop=4\n"
        "                              ^ pop must be 0 to 3"
    )


BUFFER = "%0 = buffer 4 : dtype=f32 slot=0\n"


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", 2, 1, 1),
        ("# nothing\n", 2, 1, 1),
        ("#!uir 2\n", 2, 1, 7),
        ("%0 = frob\n", 2, 1, 6),
        ("%0 buffer 4", 2, 1, 4),
        ("x = buffer 4", 2, 1, 1),
        ("%0 = ", 2, 1, 6),
        ("%0 = buffer 4 : dtype=f32", 2, 1, 26),
        ("%0 = buffer 4 : dtype=f32 # slot=0", 2, 1, 27),
        ("%0 = buffer : dtype=f32 slot=0", 2, 1, 31),
        ("%0 = buffer 4 5 : dtype=f32 slot=0", 2, 1, 15),
        ("%0 = buffer 4 : dtype=f8 slot=0", 2, 1, 23),
        ("%0 = buffer -4 : dtype=f32 slot=0", 2, 1, 13),
        ("%0 = buffer 4 : dtype=f32 slot=0 slot=0", 2, 1, 34),
        ("%0 = buffer 4 : dtype=f32 slot=0 colour=red", 2, 1, 34),
        ("%0 = buffer 4 : dtype=f32 slot=(0)", 2, 1, 32),
        ("%0 = buffer 4.5 : dtype=f32 slot=0", 2, 1, 13),
        ("%0 = buffer 4, 4 : dtype=f32 slot=0", 2, 1, 13),
        ('%0 = buffer 4 : dtype=f32 slot=0 device="', 2, 1, 41),
        ('%0 = buffer 4 : dtype=f32 slot=0 device="\\q"', 2, 1, 41),
        (BUFFER + "%0 = neg %0", 2, 2, 1),
        (BUFFER + "%1 = neg %2", 2, 2, 10),
        (BUFFER + "%1 = neg %1", 2, 2, 10),
        (BUFFER + "%1 = add %0, 3", 2, 2, 14),
        (BUFFER + "%1 = add %0,", 2, 2, 13),
        (BUFFER + "%1 = add %0 %0", 2, 2, 13),
        (BUFFER + "%1 = neg %0 : op=add", 2, 2, 15),
        (BUFFER + "%1 = reshape %0", 2, 2, 16),
        (BUFFER + "%1 = reshape %0, 4", 2, 2, 18),
        (BUFFER + "%1 = reshape %0, (2, x)", 2, 2, 22),
        (BUFFER + "%1 = reshape %0, (2, 2", 2, 2, 23),
        (BUFFER + "%1 = reshape %0, (2 2)", 2, 2, 21),
        (BUFFER + "%1 = reshape %0, (2,, 2)", 2, 2, 21),
        (BUFFER + "%1 = reshape %0, (2, (2))", 2, 2, 22),
        (BUFFER + "%1 = reshape %0, (2, %9)", 2, 2, 22),
        (BUFFER + "%1 = pad %0, ((1, (2)))", 2, 2, 19),
        (BUFFER + "%1 = pad %0, ((1, 2, 3),)", 2, 2, 15),
        (BUFFER + "%1 = pad %0, (1, 2)", 2, 2, 15),
        (BUFFER + "%1 = flip %0, (1,)", 2, 2, 16),
        (BUFFER + "%1 = reduce %0 : op=sub pop=1", 2, 2, 21),
        (BUFFER + "%1 = stage %0 : addrspace=far", 2, 2, 27),
        (BUFFER + "%1 = neg @", 2, 2, 10),
        ("%0 = const 256 : dtype=u8", 2, 1, 12),
        ("%0 = const 1.5 : dtype=i32", 2, 1, 12),
        ("%0 = const 1 : dtype=bool", 2, 1, 12),
        ("%0 = const 1e39 : dtype=f32", 2, 1, 12),
        ("%0 = const 0x1p99999 : dtype=f64", 2, 1, 12),
        ("%0 = const 1_0 : dtype=f64", 2, 1, 12),
        ("%0 = const nan : dtype=f32 bits=0x7f800000", 2, 1, 33),
        ("%0 = const 1 : dtype=f32 bits=0x7fc00001", 2, 1, 31),
        (f"%0 = const {'9' * 5000} : dtype=index", 2, 1, 12),
        (BUFFER + "%1 = reshape %0, (3, 2)", 3, 2, 18),
        (BUFFER + "%1 = expand %0, (5,)", 3, 2, 17),
        (BUFFER + "%1 = permute %0, (1,)", 3, 2, 18),
        (BUFFER + "%1 = flip %0, (true, false)", 3, 2, 15),
        (BUFFER + "%1 = shrink %0, ((1, 5),)", 3, 2, 17),
        (BUFFER + "%1 = cast %0 : dtype=void", 3, 2, 22),
        (BUFFER + "%1 = bitcast %0 : dtype=f64", 3, 2, 25),
        (BUFFER + "%1 = and %0, %0", 3, 2, 6),
        (BUFFER + "%1 = add %0", 3, 2, 6),
        (BUFFER + "%1 = buffer 4 : dtype=i32 slot=1\n%2 = add %0, %1", 3, 3, 6),
        ("%0 = param : dtype=index name=n min=3 max=2", 3, 1, 37),
        ("%0 = param : dtype=index name=2n min=1 max=2", 3, 1, 31),
        ("%0 = const 0 : dtype=void", 3, 1, 22),
        ("%0 = wmma : name=m16n8k16_f16", 3, 1, 6),
        (BUFFER + "%1 = wmma %0, %0, %0 : name=m16n8k16_f16", 3, 2, 6),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, code: int, line: int, column: int) -> None:
    with pytest.raises(UopError) as caught:
        parse_uir(text, "x.uir")
    span = caught.value.span
    assert span is not None
    assert (caught.value.exit_code, span.line, span.column) == (code, line, column)
    assert str(caught.value).startswith(f"x.uir:{line}:{column}: error: ")
    assert str(caught.value).splitlines()[2].split()[0] == "^"


def test_a_long_line_is_shown_around_the_fault() -> None:
    text = f"{BUFFER}%1 = stack {', '.join(['%0'] * 100_000)}, @, %0"
    with pytest.raises(ParseError) as caught:
        parse_uir(text)
    head, line, caret = str(caught.value).splitlines()
    assert max(map(len, (head, line, caret))) < 200
    assert line[caret.index("^")] == "@"


def test_what_cannot_be_shown_is_not_printed_raw() -> None:
    with pytest.raises(ParseError) as caught:
        parse_uir("%0\t\x1b[31m\x00")
    assert all(c.isprintable() or c == "\n" for c in str(caught.value))


@pytest.mark.net
@pytest.mark.parametrize(
    "text",
    [
        "%0 = reshape " + "(" * 500_000,
        "%0 = " * 200_000,
        '"' * 1_000_000,
        "%" + "9" * 1_000_000,
        "\x00" * 1_000_000,
        "%0 = const 0x" + "f" * 1_000_000 + " : dtype=f64",
        "%0 = const 0." + "3" * 1_000_000 + " : dtype=f16",
        "%0 = const 1e" + "9" * 1_000_000 + " : dtype=f16",
        "\ud800 \N{SNOWMAN}",
        "%0 = buffer \N{ARABIC-INDIC DIGIT FOUR} : dtype=f32 slot=0",
    ],
    ids=range(10),
)
def test_hostile_lines_give_only_our_errors(text: str) -> None:
    try:
        parse_uir(text)
    except UopError as error:
        str(error).encode("utf-8", "backslashreplace")


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UopError, match="cannot read") as caught:
        read_uir(tmp_path / "absent.uir")
    assert caught.value.exit_code == 1
    with pytest.raises(UopError, match="cannot read"):
        read_uir(tmp_path)
    with pytest.raises(UopError, match="cannot read"):
        read_uir("a\0b")
    bad = tmp_path / "bad.uir"
    bad.write_bytes(b"# \xc3\xa9\n# \xc3\xa9\xff after\n")
    with pytest.raises(ParseError) as found:
        read_uir(bad)
    assert found.value.span is not None
    assert (found.value.span.line, found.value.span.column) == (2, 4)
    good = tmp_path / "good.uir"
    good.write_bytes(b"\xef\xbb\xbf" + GEMM.encode())
    assert read_uir(good).root is parse_uir(GEMM).root


# printing


def test_a_sequence_must_be_in_order() -> None:
    x = UOp.const(dtypes.f32, 1)
    with pytest.raises(VerifyError, match="comes before its source"):
        format_uir([-x, x])


def test_names_are_quoted_where_they_need_it() -> None:
    x = UOp(Ops.SPECIAL, (UOp.const(dtypes.index, 4),), 'a "b"\n\u00e9')
    text = format_uir(x)
    assert text.splitlines()[1] == '%1 = special %0 : name="a \\"b\\"\\n\\u00e9"'
    assert parse_uir(text).root is x


@pytest.mark.net
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_graphs_read_back(data: st.DataObject, graphs: Any) -> None:
    root = data.draw(graphs)
    text = format_uir(root)
    parsed = parse_uir(text)
    assert parsed.nodes == tuple(root.toposort())
    assert parsed.root is root
    assert format_uir(parsed.root) == text


@pytest.mark.net
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_loops_read_back(data: st.DataObject, loops: Any) -> None:
    root = data.draw(loops)
    assert verify(root) is Level.LOOP
    text = format_uir(root)
    parsed = parse_uir(text)
    assert parsed.program is parsed.root is root
    assert format_uir(parsed.root) == text


@pytest.mark.net
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_linear_programs_read_back(data: st.DataObject, linears: Any) -> None:
    """Their order is part of them: it is that of the lines."""
    nodes = data.draw(linears)
    assert verify(nodes) is Level.LINEAR
    text = format_uir(nodes)
    parsed = parse_uir(text)
    assert parsed.nodes == tuple(nodes)
    assert format_uir(parsed.nodes) == text
    ordered = any(node.op in (Ops.SPECIAL, Ops.IF) for node in nodes)
    assert parsed.program is (parsed.nodes if ordered else parsed.root)


def outcome(text: str) -> tuple[tuple[UOp, ...] | None, UopError | None]:
    """The nodes of a text, or the error of ours."""
    try:
        return parse_uir(text).nodes, None
    except UopError as error:
        return None, error


@pytest.mark.net
@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutated_programs_give_only_our_errors(count: int) -> None:
    rng = random.Random(7)  # noqa: S311
    junk = ["(", ")", ",", ":", "=", '"', "#", " ", "\n", "\x00", "\u00e9", "-", "9" * 30, "nan", "%99"]
    outcomes = {"read": 0, "refused": 0}
    for _ in range(count):
        sample = rng.choice(list(SAMPLES.values()))
        pieces = re.findall(r"%?[\w.+-]+|\s|.", sample)
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(pieces))
            alike = [p for p in pieces if p[:1] == pieces[at][:1] or (p.isalnum() and pieces[at].isalnum())]
            pieces[at] = rng.choice(rng.choice([alike, alike, junk, [""], [pieces[at] * 2]]))
        text = "".join(pieces)
        read, error = outcome(text)
        if read is not None:
            again = format_uir(read)
            assert format_uir(parse_uir(again).nodes) == again
        else:
            assert error is not None
            assert error.span is not None
            assert error.exit_code in (2, 3)
        outcomes["refused" if read is None else "read"] += 1
    assert min(outcomes.values()) > count // 20


# identity


def test_a_new_buffer_never_takes_a_slot_that_a_text_used() -> None:
    slot = UOp.buffer(1, dtypes.f32).arg.slot + 5
    read = parse_uir(f"%0 = buffer 4 : dtype=f32 slot={slot}").root
    assert read.arg.slot == slot
    assert UOp.buffer(4, dtypes.f32).arg.slot == slot + 1
    del read
    assert UOp.buffer(4, dtypes.f32).arg.slot == slot + 2


def test_nodes_survive_pickle_and_copy() -> None:
    root = parse_uir(SAMPLES["tensor"]).root
    assert pickle.loads(pickle.dumps(root)) is root  # noqa: S301
    assert copy.deepcopy([root, root.src[0]]) == [root, root.src[0]]


def test_a_pickle_means_the_same_in_another_process() -> None:
    root = parse_uir(LOOP).root
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).key)"
    there = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(root), capture_output=True, check=True
    )
    assert there.stdout.decode().strip() == root.key


# size


@pytest.mark.net
def test_a_chain_of_100_000_nodes() -> None:
    node = UOp.const(dtypes.i32, 1)
    for _ in range(100_000):
        node = -node
    assert parse_uir(format_uir(node)).root is node
    assert len(toposort([node])) == 100_001


@pytest.mark.net
def test_a_megabyte_is_read() -> None:
    """How long it takes is measured by benchmarks/text.py."""
    lines = ["%0 = buffer 4 : dtype=f32 slot=0\n"]
    for n in range(1, 36_001, 3):
        lines += [f"%{n} = add %{n - 1}, %0\n", f"%{n + 1} = reshape %{n}, (2, 2)\n"]
        lines += [f"%{n + 2} = reshape %{n + 1}, (4,)\n"]
    text = "".join(lines)
    assert len(text) > 1_000_000
    assert len(parse_uir(text).nodes) == 36_001


HEAD = "%0 = param : dtype=index name=n min=1 max=4\n%1 = const 1 : dtype=f32\n%2 = reshape %1, (1,)\n"


def numbered(count: int, line: str) -> str:
    """Lines that define %3, %4, ...; {} is the name before."""
    return "".join(f"%{i} = {line.format(f'%{i - 1}')}\n" for i in range(3, 3 + count))


#: Programs of about n pieces each, and whether they are read.
HOSTILE: dict[str, tuple[Callable[[int], str], bool]] = {
    "nested axes": (lambda n: numbered(n, "stack {}"), False),
    "many axes": (lambda n: f"%3 = reshape %2, ({'1, ' * n})\n", False),
    "many digits": (lambda n: f"%3 = reshape %2, ({('9' * 900 + ', ') * (n // 300)})\n", False),
    "squares": (lambda n: numbered(n, "mul {0}, {0}"), True),
    "many operands": (lambda n: f"%3 = sink {', '.join(['%2'] * n)}\n", True),
    "many arguments": (lambda n: f"%3 = call {', '.join(['%2'] * n)}\n", False),
    "many calls": (lambda n: "%3 = sink\n" + "".join(f"%{i} = call %3\n" for i in range(4, n)), True),
    "blank lines": (lambda n: "\n" * n, True),
    "comment": (lambda n: " # ( \t%0" * n, True),
    "many keys": (lambda n: "%3 = neg %1 : " + "op=add " * n, False),
    "constants": (lambda n: "".join(f"%{i} = const {i}.5 : dtype=f64\n" for i in range(3, n)), True),
    "junk": (lambda n: "\x00\xff(%0,\n" * n, False),
}


@pytest.mark.net
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("count", [10_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_a_hostile_text_is_read_or_refused(name: str, count: int) -> None:
    """In time in proportion to its length: what takes more, never ends here."""
    make, read = HOSTILE[name]
    text = HEAD + make(count)
    _, error = outcome(text)
    assert (error is None) is read


def test_a_size_that_is_a_product_of_products_is_compared_at_once() -> None:
    """n, n * n, (n * n) * (n * n), ...: written out, the last one has 2**60 factors."""
    squares = "".join(f"%{i} = mul %{i - 1}, %{i - 1}\n" for i in range(4, 64))
    shapes = "%64 = expand %2, (%63,)\n%65 = reshape %64, (%62, %62)\n%66 = reshape %65, (%62, %63)\n"
    with pytest.raises(VerifyError, match="does not have as many elements") as caught:
        parse_uir(f"{HEAD}%3 = mul %0, %0\n{squares}{shapes}")
    assert caught.value.span is not None
    assert caught.value.span.text.startswith("%66")


def test_stage_and_axis_names_are_those_of_the_enums() -> None:
    for space in (AddrSpace.REG, AddrSpace.LOCAL, AddrSpace.GLOBAL):
        assert f"addrspace={space.value}" in format_uir(UOp(Ops.STAGE, (UOp.const(dtypes.f32, 0),), space))
    for axis in AxisType:
        assert f"axis={axis.value}" in format_uir(UOp.range(4, 0, axis))
