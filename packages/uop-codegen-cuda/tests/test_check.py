"""The checker: what accesses cost, against a count by NumPy; files of CUDA text; the command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_cuda import CudaSource, Report, check_html, check_kernel, generate, read_cuda
from uop_ir import BoundsError, UOp, UopError, dtypes, format_uir, generated, index

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt install g++)")
Integers = npt.NDArray[np.int64]
LANES = np.arange(32)


def one_warp(body: str, memory: str = "float *y, const float *x", size: int = 4096) -> Report:
    """The report on a kernel of 32 threads, and memory of `size` f32 elements."""
    text = f'extern "C" __global__ void kernel({memory}) {{\nconst int t = threadIdx.x;\n{body}\n}}\n'
    params = tuple(UOp.param(slot, size, dtypes.f32) for slot in range(memory.count("*")))
    one = index(1)
    source = CudaSource("kernel", text, params, (one, one, one), (32, 1, 1))
    return check_kernel(source, [generated(p, 0) for p in params])


def sectors(places: Integers, size: int) -> tuple[int, int]:
    """Of accesses of `size` bytes at these bytes:
    the sectors of 32 that they touch, and how few could hold them.
    """
    touched = (places[:, None] + np.arange(size)).reshape(-1)
    return len(np.unique(touched // 32)), -(-len(np.unique(touched)) // 32)


def wavefronts(places: Integers, size: int) -> tuple[int, int]:
    """The wavefronts of 32 banks of 4 bytes, groups of lanes of 128 bytes at a time, and how few could do."""
    total = 0
    for group in np.split(places, max(1, size // 4)):
        words = np.unique((group[:, None] + np.arange(size)).reshape(-1) // 4)
        total += int(np.bincount(words % 32).max())
    touched = np.unique((places[:, None] + np.arange(size)).reshape(-1))
    return total, -(-len(touched) // 128)


#: Of each lane the byte where its access begins; the text of the kernel; and the bytes of an access.
GLOBAL: dict[str, tuple[Callable[[Integers], Integers], str, int]] = {
    "in a row": (lambda t: t * 4, "y[t] = x[t];", 4),
    "all the same": (lambda t: t * 0 + 20, "y[t] = x[5];", 4),
    "one off": (lambda t: t * 4 + 4, "y[t] = x[t + 1];", 4),
    "every second": (lambda t: t * 8, "y[t] = x[t * 2];", 4),
    "every 64th": (lambda t: t * 256, "y[t] = x[t * 64];", 4),
    "backwards": (lambda t: (31 - t) * 4, "y[t] = x[31 - t];", 4),
    "pairs": (lambda t: t // 2 * 36, "y[t] = x[t / 2 * 9];", 4),
    "vectors": (lambda t: t * 16, "((float4 *)y)[t] = ((const float4 *)x)[t];", 16),
    "vectors apart": (lambda t: t * 48, "((float4 *)y)[t] = ((const float4 *)x)[t * 3];", 16),
    "a part of vectors": (lambda t: t * 16, "y[t] = ((const float4 *)x)[t].x;", 4),
}


@pytest.mark.parametrize("name", GLOBAL)
def test_sectors_of_a_load(name: str) -> None:
    places, text, size = GLOBAL[name]
    report = one_warp(text)
    (load,) = [c for c in report.costs if c.direction == "load"]
    assert (load.space, load.line, load.requests) == ("global", 3, 1)
    assert (load.moved, load.ideal) == sectors(places(LANES), size)
    assert report.findings == ()


SHARED: dict[str, tuple[Callable[[Integers], Integers], str]] = {
    "in a row": (lambda t: t, "t"),
    "two in a bank": (lambda t: t * 2, "t * 2"),
    "all in a bank": (lambda t: t * 32, "t * 32"),
    "a padded column": (lambda t: t * 33, "t * 33"),
    "half of them the same": (lambda t: t // 16 * 32, "t / 16 * 32"),
    "the same in both halves": (lambda t: t % 16, "t % 16"),
    "swizzled": (lambda t: t * 32 + (t ^ 5), "t * 32 + (t ^ 5)"),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_wavefronts_of_a_load(name: str, kind: str) -> None:
    places, text = SHARED[name]
    size = 4 if kind == "float" else 8
    report = one_warp(
        f"""__shared__ {kind} part[1088];
for (int i = t; i < 1088; i += 32)
    part[i] = x[i];
__syncwarp();
y[t] = part[{text}];"""
    )
    (load,) = [c for c in report.costs if (c.space, c.direction) == ("shared", "load")]
    assert (load.line, load.requests) == (7, 1)
    assert (load.moved, load.ideal) == wavefronts(places(LANES) * size, size)
    assert report.findings == ()


def test_a_loop_is_a_request_a_step_and_lanes_that_stay_away_cost_nothing() -> None:
    report = one_warp("float sum = 0;\nfor (int i = 0; i < t; i++)\n    sum += x[i * 32 + t];\ny[t] = sum;")
    (load,) = [c for c in report.costs if c.direction == "load"]
    wanted = np.array([sectors((i * 32 + LANES[i + 1 :]) * 4, 4) for i in range(31)]).sum(0)
    assert (load.requests, load.moved, load.ideal) == (31, *wanted)


def test_a_report_as_text() -> None:
    report = one_warp("y[t] = x[t * 64 + 4000];")
    what = "reads 4 bytes at byte 16512 of x, which has 16384; the kernel ends here"
    assert str(report).splitlines()[:4] == [
        "kernel: 1 x 1 x 1 blocks of 32 x 1 x 1 threads",
        f"line 3: out of bounds: {what} [block (0, 0, 0), thread (2, 0, 0)]",
        "    y[t] = x[t * 64 + 4000];",
        " line access        requests   moved              ideal  times",
    ]


def test_arrays_are_not_changed() -> None:
    x = np.arange(64, dtype=np.float32)
    one = index(1)
    text = 'extern "C" __global__ void kernel(float *x) { x[threadIdx.x] += 1; }\n'
    source = CudaSource("kernel", text, (UOp.param(0, 64, dtypes.f32),), (one, one, one), (64, 1, 1))
    assert check_kernel(source, [x]).findings == ()
    np.testing.assert_array_equal(x, np.arange(64))


def test_a_generated_kernel_with_scalars() -> None:
    n = UOp.variable("n", 1, 1000)
    x = UOp.param(1, 1000, dtypes.f32).shrink([(0, n)])
    source = generate(UOp.sink(UOp.param(0, 1000, dtypes.f32).shrink([(0, n)]).store(x + x)))
    report = check_kernel(source, [np.ones(1000, np.float32)] * 2, {n: 777})
    assert (report.findings, report.grid) == ((), (4, 1, 1))
    assert {(c.direction, c.requests, c.moved) for c in report.costs} == {("load", 25, 98), ("store", 25, 98)}


class Page(HTMLParser):
    """A page: the tags that are open at its end,
    the texts of its cells row by row, and what it loads from elsewhere.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_page() -> None:
    """Each line once, escaped; a cost beside it; and a finding below."""
    report = one_warp("if (t < 9)\n    y[t / 2] = x[t * 8];")
    page = Page(check_html([report, report], "<a & b>"))
    assert page.open == []
    assert page.loads == []
    assert "&lt;a &amp; b&gt;" in check_html([report], "<a & b>")
    half = len(page.rows) // 2
    assert page.rows[:half] == page.rows[half:]
    assert [row[1] for row in page.rows[1:half] if row[0]] == report.source.text.splitlines()
    (at,) = [n for n, row in enumerate(page.rows[:half]) if row[0] == "4"]
    assert page.rows[at][2:] == ["global load", "1", "9 sectors", "2", "4.50"]
    assert page.rows[at + 1][2:] == ["global store", "1", "1 sectors", "1", "1.00"]
    assert page.rows[at + 2][1].startswith("race: writes byte 0 of y, which thread 0 has written")


# files

SCALE = """\
// launch: scale<<<2, (16, 2), 64>>>(y[60], x[15], 60, 0.5)
extern "C" __global__ void scale(float *y, const float4 *__restrict__ x, int n, float factor) {
    const int i = (blockIdx.x * 2 + threadIdx.y) * 16 + threadIdx.x;
    if (i < n)
        y[i] = factor * ((const float *)x)[i];
}
"""


def test_read_cuda(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SCALE)
    source, scalars = read_cuda(str(tmp_path / "scale.cu"))
    assert (source.name, source.block, [int(n.value) for n in source.grid]) == (
        "scale",
        (16, 2, 1),
        [2, 1, 1],
    )
    assert source.shared == 64
    assert [(p.dtype, p.arg.size) for p in source.params] == [
        (dtypes.f32, 60),
        (dtypes.f32, 60),
        (dtypes.i32, None),
        (dtypes.f32, None),
    ]
    assert {p.arg.name: value for p, value in scalars.items()} == {"n": 60, "factor": 0.5}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("// launch: ", "// ", r"does not say how its kernel is launched \(a line such as // launch: kernel"),
        ("launch: scale", "launch: other", "has no __global__ function other"),
        (", 0.5)", ")", r"its launch gives 3 \(an argument for each of \(float \*y, const float4 "),
        ("y[60]", "60", r"scale is given '60' for 'float \*y' \(y\[SIZE\]\)"),
        (", 60, 0.5", ", n[60], 0.5", r"scale is given 'n\[60\]' for 'int n' \(a number\)"),
        (", 60, 0.5", ", 60.5, 0.5", r"scale is given '60.5' for 'int n' \(a number\)"),
        ("int n", "size_t n", "scale takes 'size_t n'"),
    ],
)
def test_a_launch_that_does_not_fit(before: str, after: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SCALE.replace(before, after, 1))
    with pytest.raises(UopError, match=words):
        read_cuda(str(tmp_path / "scale.cu"))


# the command


@pytest.fixture
def check_gpu(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`uopc check-gpu`: its exit code and what it prints, then what the program printed that it ran."""
    commands = entry_points(group="uop.commands")
    if "check-gpu" not in commands.names:
        pytest.skip("the package is not installed, so it has no entry points (pip install it)")

    def run(*arguments: str) -> tuple[int, str]:
        code = commands["check-gpu"].load()(list(arguments))
        return code, capsys.readouterr().out

    return run


def test_a_file_of_cuda(check_gpu: Any, tmp_path: Path) -> None:
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)
    code, out = check_gpu(str(path))
    assert code == 0
    assert out.endswith("\n0 findings\n")
    path.write_text(SCALE.replace("i < n", "i <= n"))
    code, out = check_gpu(str(path), "--html", str(tmp_path / "page.html"))
    assert code == 1
    assert "<td class=wrong" in (tmp_path / "page.html").read_text()
    assert "line 5: out of bounds: reads 4 bytes at byte 240 of x, which has 240" in out
    assert out.endswith("\n1 finding\n")


def test_a_program(check_gpu: Any, tmp_path: Path) -> None:
    n = UOp.variable("n", 1, 64)
    x, y = (UOp.param(slot, 64, dtypes.f32).shrink([(0, n)]) for slot in (1, 0))
    path = tmp_path / "double.uir"
    path.write_text(format_uir(UOp.sink(y.store(x + x))))
    code, out = check_gpu(str(path), "--var", "n=40", "--seed", "3")
    assert code == 0
    assert "1 x 1 x 1 blocks of 64 x 1 x 1 threads" in out
    for given in ([], ["--var", "m=40"], ["--var", "n=forty"]):
        with pytest.raises(UopError, match="--var"):
            check_gpu(str(path), *given)
    with pytest.raises(BoundsError, match="variable n is 65, outside of 1 to 64"):
        check_gpu(str(path), "--var", "n=65")


SCRIPT = """\
import sys
import numpy as np
from uop_ir import Ops, Plan, UOp, dtypes, get_backend, settings
x, y = UOp.param(1, 40, dtypes.f32), UOp.param(0, 40, dtypes.f32)
emu = get_backend()
memory = [emu.allocate(160), emu.adopt(np.ones(160, np.uint8))]
emu.link(Plan((UOp(Ops.CALL, (UOp.sink(y.store(x + x)), y, x)),), (y, x)))(memory, [])
assert (sys.argv, settings.dev) == ([__file__], "EMU")
print("a line of the script")
"""


def test_a_script(check_gpu: Any, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    code, out = check_gpu(str(path))
    assert code == 0
    assert out.startswith("k_")
    assert "a line of the script" not in out
    assert out.endswith("\n0 findings\n")
    with pytest.raises(UopError, match="there is no file"):
        check_gpu(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scale.cu", "--seed", "-1"], r"--seed -1 is less than 0 \(at least 0\)"),
        (["scale.cu", "--var", "n=1"], r"--var is for a \.uir file \(leave out --var\)"),
        (["none.cu"], "cannot read 'none.cu'"),
        (["scale.cu", "--html", "no/page"], "cannot write 'no/page'"),
    ],
)
def test_what_is_refused(
    check_gpu: Any, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.cu").write_text(SCALE)
    with pytest.raises(UopError, match=words):
        check_gpu(*arguments)
