"""`uopc compile`: every stage before C prints `.uir` that reads back, and C that computes A @ B."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from uop_codegen_c import PASSES
from uop_codegen_c.commands import compile_command
from uop_ir import UopError, VerifyError, format_uir, parse_uir

GEMM = """# C = A @ B for 4x4 matrices, from movement ops only
%0 = buffer 16 : dtype=f32 slot=0
%1 = buffer 16 : dtype=f32 slot=1
%2 = reshape %0, (4, 1, 4)
%3 = reshape %1, (4, 4)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 4, 4)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
"""


@pytest.fixture
def gemm(tmp_path: Path) -> str:
    path = tmp_path / "gemm.uir"
    path.write_text(GEMM)
    return str(path)


@pytest.fixture
def printed(gemm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """A file with the program as it is printed at a stage."""

    def write(stage: str) -> str:
        compile_command([gemm, "--emit", stage])
        path = tmp_path / "half.uir"
        path.write_text(capsys.readouterr().out)
        return str(path)

    return write


@pytest.mark.parametrize("stage", ["kernel", *(step.name for step in PASSES), "linear"])
def test_a_stage_reads_back(gemm: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_command([gemm, "--emit", stage]) == 0
    text = capsys.readouterr().out
    assert format_uir(parse_uir(text).nodes) == text


@pytest.mark.parametrize(
    ("stage", "first"),
    [("simplify", "bounds"), ("expand", "define"), ("accumulate", "linear"), ("linear", "c")],
)
def test_compilation_goes_on_from_a_printed_stage(
    gemm: str, stage: str, first: str, printed: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    compile_command([gemm])
    whole = capsys.readouterr().out
    half = printed(stage)
    compile_command([half, "--from", first])
    assert capsys.readouterr().out.strip() == whole.strip()


def test_what_an_earlier_stage_eliminates_is_refused(printed: Callable[[str], str]) -> None:
    half = printed("spread")
    with pytest.raises(UopError, match=r"(?s)Ops\.REDUCE.*--from accumulate") as error:
        compile_command([half, "--from", "linear"])
    assert error.value.exit_code == 3


def test_a_stage_before_the_first_one_is_refused(printed: Callable[[str], str]) -> None:
    half = printed("linear")
    with pytest.raises(UopError, match="--emit simplify lies before --from c"):
        compile_command([half, "--from", "c", "--emit", "simplify"])


@pytest.mark.parametrize("first", ["simplify", "bounds", "expand", "spread", "linear", "c"])
@pytest.mark.parametrize("stored", ["%0", "%1"], ids=["whole", "view"])
def test_a_program_of_tensors_goes_through_all_stages(first: str, stored: str, tmp_path: Path) -> None:
    path = tmp_path / "tensors.uir"
    lines = ["param 8 : dtype=f32 slot=0", "shrink %0, ((0, 4),)", "reduce %0 : op=add pop=1"]
    lines += ["reshape %2, (1,)", f"shrink {stored}, ((0, 1),)", "store %4, %3", "sink %5"]
    path.write_text("".join(f"%{n} = {line}\n" for n, line in enumerate(lines)))
    with pytest.raises(UopError, match=r"Ops\.SHRINK") as error:
        compile_command([str(path), "--from", first])
    assert error.value.exit_code == 3
    assert error.value.span is not None


def test_a_seed_without_inputs_is_refused(gemm: str) -> None:
    with pytest.raises(UopError, match=r"--seed is for --main \(leave out --seed\)"):
        compile_command([gemm, "--seed", "0"])


def test_c_is_one_triple_loop(gemm: str, capsys: pytest.CaptureFixture[str]) -> None:
    compile_command([gemm, "--emit", "c"])
    text = capsys.readouterr().out
    assert text.count("for (") == 3
    assert "data0[ridx0*4+ridx1] = acc0;" in text


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("%0 = buffer 4 : dtype=f32 slot=0\n%1 = store %0, %0\n%2 = sink %1, %0\n", "values and effects"),
        ("%0 = param 4 : dtype=f32 slot=0\n%1 = neg %0\n", "values of a program with PARAMs"),
        ("%0 = const 2 : dtype=index", "dtype index cannot be stored"),
    ],
)
def test_a_program_that_is_no_kernel_is_refused(program: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.uir"
    path.write_text(program)
    with pytest.raises(UopError, match=message):
        compile_command([str(path)])


@pytest.mark.parametrize("emit", ["c", "rangeify"])
def test_a_program_with_loops_has_to_say_where_it_goes_on(emit: str, printed: Callable[[str], str]) -> None:
    half = printed("rangeify")
    with pytest.raises(UopError, match=r"has loops already(.|\n)*--from simplify") as error:
        compile_command([half, "--emit", emit])
    assert error.value.exit_code == 3


def test_an_access_out_of_bounds_is_refused_with_node_and_interval(tmp_path: Path) -> None:
    path = tmp_path / "bad.uir"
    path.write_text(
        "%0 = param 4 : dtype=f32 slot=0\n%1 = const 5 : dtype=index\n%2 = range %1 : id=0 axis=loop\n"
        "%3 = index %0, %2\n%4 = const 0x0p+0 : dtype=f32\n%5 = store %3, %4\n%6 = end %5, %2\n%7 = sink %6\n"
    )
    with pytest.raises(UopError, match="elements 0 to 4 of param slot=0, which has 4") as error:
        compile_command([str(path), "--from", "bounds"])
    assert error.value.exit_code == 4


ENDED = """\
%2 = range %1 : id=0 axis=loop
%3 = index %0, %2
%4 = const 0x0p+0 : dtype=f32
%5 = store %3, %4
%6 = end %2, %2
%7 = end %5, %2
%8 = sink %6, %7
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENDED, r"Ops\.END of the value .*RANGE"),
        ("%2 = index %0, %1\n%3 = sink %2\n", r"Ops\.SINK of the value .*INDEX"),
    ],
)
def test_a_value_in_the_place_of_an_effect_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "value.uir"
    path.write_text(f"%0 = param 4 : dtype=f32 slot=0\n%1 = const 3 : dtype=index\n{text}")
    with pytest.raises(VerifyError, match=message) as error:
        compile_command([str(path), "--from", "bounds"])
    assert error.value.span is not None


LOOP_ORDER = """\
split 0 2 upcast  # rows
split 1 4 vector
"""


def gemm_of(n: int) -> str:
    """The program for matrices of another size."""
    text = re.sub(r"(?<=[(, ])4(?=[,)])", str(n), GEMM.partition("\n")[2])
    return text.replace("buffer 16", f"buffer {n * n}")


@pytest.fixture
def product(tmp_path: Path) -> str:
    """A product of 8x8 matrices."""
    path = tmp_path / "product.uir"
    path.write_text(gemm_of(8).replace("f32", "i32"))
    return str(path)


def test_a_schedule_is_replayed(product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_command([product, "--schedule", "split 0 2 upcast; split 1 4 vector"])
    text = capsys.readouterr().out
    assert text.count("store_i32x4(data0") == 2
    path = tmp_path / "my.schedule"
    path.write_text(LOOP_ORDER)
    compile_command([product, "--schedule", f"@{path}"])
    assert capsys.readouterr().out == text
    compile_command([product, "--schedule", f"@{path}", "--emit", "schedule"])
    assert capsys.readouterr().out == "split 0 2 upcast\nsplit 1 4 vector\n"


def test_the_schedule_that_is_chosen_gives_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "product.uir"
    path.write_text(gemm_of(64))
    compile_command([str(path), "--emit", "schedule"])
    schedule = capsys.readouterr().out
    assert "vector" in schedule
    compile_command([str(path)])
    text = capsys.readouterr().out
    compile_command([str(path), "--schedule", schedule])
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "split 0 9 loop"], "factor 9 for range 0 of 8"),
        (["--schedule", "split 0 loop"], "expected a factor, an integer"),
        (["--schedule", "@nowhere.schedule"], "cannot read 'nowhere.schedule': No such file"),
        (["--schedule", "retype 0 thread", "--from", "expand"], "--schedule lies before --from expand"),
        (["--emit", "schedule", "--from", "linear"], "--emit schedule lies before --from linear"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_refused(
    product: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--from" in options:
        compile_command([product, "--emit", "linear" if "linear" in options else "optimize"])
        half = tmp_path / "half.uir"
        half.write_text(capsys.readouterr().out)
        product = str(half)
    with pytest.raises(UopError, match=message):
        compile_command([product, *options])
