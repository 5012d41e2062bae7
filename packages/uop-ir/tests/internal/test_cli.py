"""The command: the dispatcher, `uopc run` and `uopc doctor`,
held against NumPy and the exit codes of the design.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from uop_ir import (
    BackendError,
    BoundsError,
    Span,
    UopError,
    VerifyError,
    cli,
    doctor,
    parse_uir,
    to_dot,
    to_svg,
)

GEMM = """\
# C = A @ B for 4x4 matrices, from movement ops only
%0 = buffer 16 : dtype=f32 slot=0
%1 = buffer 16 : dtype=f32 slot=1
%2 = reshape %0, (4, 1, 4)
%3 = reshape %1, (4, 4)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 4, 4)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
"""
# out[i] = rate * in[i] for i < n
LOOP = """\
%0 = param 8 : dtype=f32 slot=0
%1 = param 8 : dtype=f32 slot=1
%2 = param : dtype=index name=n min=1 max=9
%3 = param : dtype=f32 name=rate
%4 = range %2 : id=0 axis=loop
%5 = index %1, %4
%6 = load %5
%7 = mul %6, %3
%8 = index %0, %4
%9 = store %8, %7
%10 = end %9, %4
%11 = sink %10
"""
CALL = """\
%0 = param 4 : dtype=i32 slot=0
%1 = param 4 : dtype=i32 slot=1
%2 = add %1, %1
%3 = store %0, %2
%4 = sink %3
%5 = buffer 4 : dtype=i32 slot=800000
%6 = buffer 4 : dtype=i32 slot=800001
%7 = call %4, %5, %6
%8 = sink %7
"""
LINEAR = """\
%0 = param 8 : dtype=i32 slot=0
%1 = const 8 : dtype=index
%2 = special %1 : name=lidx0
%3 = const 3 : dtype=index
%4 = cmplt %2, %3
%5 = index %0, %2
%6 = if %4
%7 = const 42 : dtype=i32
%8 = store %5, %7
%9 = endif %6
%10 = sink %8
"""


def hello(argv: list[str]) -> int:
    """Say hello.

    More that help does not list.
    """
    print("hello", *argv)
    return 0


def fails(error: BaseException) -> Callable[[list[str]], int]:
    def command(argv: list[str]) -> int:
        raise error

    return command


class Loaded(EntryPoint):
    """An entry point whose object is at hand."""

    def load(self) -> Any:
        return COMMANDS[self.name]


COMMANDS: dict[str, Any] = {
    "hello": hello,
    "user": fails(UopError("no\n  such thing", remedy="get one")),
    "placed": fails(VerifyError("bad", span=Span("f.uir", 3, 2, "abc"), remedy="mend it")),
    "bounds": fails(BoundsError("out")),
    "device": fails(BackendError("gone")),
    "stopped": fails(KeyboardInterrupt()),
    "memory": fails(MemoryError()),
    "usage": fails(SystemExit(2)),
    "exit": fails(SystemExit(None)),
    "message": fails(SystemExit("so long")),
}


@pytest.fixture
def uopc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in this process, with the commands of this package and those above installed."""
    ours = [EntryPoint(n, f"uop_ir.commands:{n}", "uop.commands") for n in ("run", "show", "doctor")]
    broken = EntryPoint("broken", "uop_ir.absent:main", "uop.commands")
    theirs = [Loaded(n, f"tests:{n}", "uop.commands") for n in COMMANDS]
    monkeypatch.setattr(cli, "entry_points", lambda group: [*ours, broken, *theirs])

    def call(*argv: str) -> tuple[int, str, str]:
        code = cli.main(argv)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "program.uir"
        path.write_text(text)
        return str(path)

    return write


# the dispatcher


def test_help_lists_the_installed_commands(uopc: Any) -> None:
    code, out, err = uopc("--help")
    assert (code, err) == (0, "")
    assert "  hello       Say hello.\n" in out
    assert "  run         Run a .uir file on the interpreter" in out
    assert "broken      the command broken cannot be loaded" in out
    assert "does not list" not in out


def test_a_command_gets_its_arguments(uopc: Any) -> None:
    assert uopc("hello", "a", "--b") == (0, "hello a --b\n", "")


def test_version(uopc: Any) -> None:
    code, out, _ = uopc("--version")
    assert code == 0
    assert out.startswith("uopc")


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 1, "uopc: error: no command given (installed: bounds, broken, "),
        (["frob"], 1, "uopc: error: no command 'frob' (installed: bounds, broken, "),
        (["user"], 1, "uopc: error: no such thing (get one)\n"),
        (["placed"], 3, "f.uir:3:2: error: bad\n  abc\n   ^ mend it\n"),
        (["bounds"], 4, "uopc: error: out\n"),
        (["device"], 5, "uopc: error: gone\n"),
        (["memory"], 5, "uopc: error: not enough memory\n"),
        (["stopped"], 130, "uopc: interrupted\n"),
        (["broken"], 1, "uopc: error: the command broken cannot be loaded from uop_ir.absent:main: "),
        (["usage"], 1, ""),
        (["exit"], 0, ""),
        (["message"], 1, "so long\n"),
        (["run"], 1, "uopc: error: uopc run: the following arguments are required: FILE.uir"),
        (["run", "x", "--frob"], 1, "uopc: error: uopc run: unrecognized arguments: --frob"),
        (["run", "x", "--seed", "y"], 1, "uopc: error: uopc run: argument --seed: "),
        (["run", "x", "--seed", "-1"], 1, "uopc: error: --seed -1 is less than 0\n"),
        (["run", "absent.uir"], 1, "uopc: error: cannot read 'absent.uir': No such file or directory\n"),
    ],
)
def test_exit_codes_and_one_line(uopc: Any, argv: list[str], code: int, said: str) -> None:
    got, out, err = uopc(*argv)
    assert (got, out) == (code, "")
    assert err.startswith(said)
    assert len(err.splitlines()) <= (3 if argv == ["placed"] else 1)


def process(*argv: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    script = "import sys; from uop_ir.cli import main; sys.exit(main())"
    environ = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", script, *argv], env=environ, capture_output=True, text=True, check=False
    )


def test_a_wrong_setting_is_one_line_too() -> None:
    done = process("--help", DEBUG="much")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "uopc: error: DEBUG='much' is not an integer\n"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    script = "import sys; from uop_ir.cli import main; sys.exit(main(['--help']))"
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=written, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(written)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_output_without_room_is_one_line() -> None:
    script = "import sys; from uop_ir.cli import main; sys.exit(main(['--help']))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, f"uopc: error: {os.strerror(errno.ENOSPC)}\n")


def test_a_closed_output_is_no_traceback() -> None:
    script = "import os, sys; os.close(1); sys.stdout = None; from uop_ir.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# uopc run


def test_run_multiplies_the_matrices_of_two_files(
    uopc: Any, write: Callable[[str], str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, (4, 4)).astype(np.float32) for _ in range(2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.asfortranarray(b))
    argv = ["run", write(GEMM), "--input", f"0={tmp_path / 'a.npy'}", "--input", f"%1={tmp_path / 'b.npy'}"]
    assert uopc(*argv) == (0, f"%7: shape (4, 4), dtype f32\n{a @ b}\n", "")


def test_generated_inputs_are_stated_and_the_same_each_time(uopc: Any, write: Callable[[str], str]) -> None:
    path = write(GEMM)
    first = uopc("run", path)
    assert first[0] == 0
    assert first[2].splitlines() == [
        "generated %0 (buffer slot=0): 16 of f32, seed 0",
        "generated %1 (buffer slot=1): 16 of f32, seed 0",
    ]
    assert uopc("run", path) == first
    assert uopc("run", path, "--seed", "1")[1] != first[1]


def test_run_prints_the_memory_that_a_program_stores_to(
    uopc: Any, write: Callable[[str], str], tmp_path: Path
) -> None:
    x = np.arange(8, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "out.npy", np.full(8, -1, np.float32))
    argv = ["run", write(LOOP), "--input", f"1={tmp_path / 'x.npy'}", "--input", f"0={tmp_path / 'out.npy'}"]
    wanted = np.where(np.arange(8) < 5, x * 0.5, -1).astype(np.float32)
    code, out, err = uopc(*argv, "--var", "n=5", "--var", "rate=0.5")
    assert (code, err) == (0, "")
    assert out == f"%0 (param slot=0): shape (8,), dtype f32\n{wanted}\n"
    code, out, err = uopc(*argv, "--var", "n=9", "--var", "rate=0.5")
    assert (code, out) == (4, "")
    assert err == (
        f"{argv[1]}:6:6: error: index(param1, range0): element 8 of param slot=1, which has 8\n"
        "  %5 = index %1, %4\n"
        "       ^\n"
    )


@pytest.mark.parametrize(
    ("text", "code", "line", "said"),
    [
        (LOOP.replace("end %9, %4", "barrier %9"), 3, 5, "Ops.RANGE: nothing closes range 0"),
        (LOOP.replace("sink %10", "sink %10, %7"), 3, 8, "Ops.MUL: a value beside effects"),
        (LINEAR.replace("%9 = endif %6", "%9 = barrier %6"), 3, 7, "Ops.IF: is never closed"),
        (CALL.replace("%0 = param 4", "%0 = param 3"), 3, 4, "Ops.STORE: shapes (3,) and (4,)"),
        (
            f"%0 = param : dtype=index name=n min=1 max={1 << 62}\n%1 = add %0, %0\n%2 = cast %1 : dtype=i64",
            4,
            2,
            "Ops.ADD: index overflows 64 bits: 4611686018427387904, 4611686018427387904",
        ),
    ],
)
def test_a_program_that_is_wrong_is_told_with_its_line(
    uopc: Any, write: Callable[[str], str], text: str, code: int, line: int, said: str
) -> None:
    path = write(text)
    scalars = {"name=n": "n=4611686018427387904" if "4611" in text else "n=3", "name=rate": "rate=1"}
    got, out, err = uopc("run", path, *(f"--var={v}" for k, v in scalars.items() if k in text))
    assert (got, out) == (code, "")
    assert err.splitlines()[-3].startswith(f"{path}:{line}:6: error: {said}")


def test_run_goes_through_calls(uopc: Any, write: Callable[[str], str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.int32))
    code, out, _ = uopc("run", write(CALL), "--input", f"800001={tmp_path / 'x.npy'}")
    assert (code, out) == (0, "%5 (buffer slot=800000): shape (4,), dtype i32\n[0 2 4 6]\n")


def test_run_takes_a_linear_program_line_by_line(
    uopc: Any, write: Callable[[str], str], tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(8, np.int32))
    code, out, _ = uopc("run", write(LINEAR), "--input", f"0={tmp_path / 'x.npy'}")
    assert (code, out) == (0, "%0 (param slot=0): shape (8,), dtype i32\n[42 42 42  0  0  0  0  0]\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "n has no value (--var n=..., 1 to 9)"),
        (["--var", "n"], "--var 'n' is not NAME=VALUE"),
        (["--var", "n=1", "--var", "rate=1", "--input", "0"], "--input '0' is not SLOT=FILE.npy"),
        (["--var", "n=2", "--var", "n=3"], "--var n is given twice: 2 and 3 (give one of them)"),
        (
            ["--var", "n=1", "--var", "rate=1", "--input", "0=a.npy", "--input", "0=b.npy"],
            "--input 0 is given twice: a.npy and b.npy (give one of them)",
        ),
        (["--var", "n=1.5", "--var", "rate=1"], "--var n: '1.5' is no integer (1 to 9)"),
        (["--var", "n=1", "--var", "rate=x"], "--var rate: 'x' is no number (f32)"),
        (["--var", "n=1", "--var", "rat=1"], "no scalar is named 'rat' (there is "),
        (["--var", "n=1", "--var", "rate=1", "--input", "7=x.npy"], "no memory is named '7' (there is "),
        (["--var", "n=1", "--var", "rate=1", "--input", "1=absent.npy"], "cannot read 'absent.npy': No such"),
    ],
)
def test_wrong_inputs_are_refused(uopc: Any, write: Callable[[str], str], argv: list[str], said: str) -> None:
    code, out, err = uopc("run", write(LOOP), *argv)
    assert (code, out) == (1, "")
    assert f"uopc: error: {said}" in err.splitlines()[-1]


@pytest.mark.parametrize("value", [0, 10, -1, 1 << 70])
def test_a_variable_outside_of_its_bounds(uopc: Any, write: Callable[[str], str], value: int) -> None:
    code, out, err = uopc("run", write(LOOP), f"--var=n={value}", "--var=rate=1")
    assert (code, out) == (BoundsError.exit_code, "")
    assert err.splitlines()[-1] == f"uopc: error: --var n={value} is out of its bounds (1 to 9)"


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(16), "is of dtype float64, %0 (buffer slot=0) of f32 (convert it with astype('float32'))"),
        (np.zeros(15, np.float32), "has 15 elements, %0 (buffer slot=0) has 16"),
        (np.array([None] * 16), "cannot read"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "cannot read"),
        (b"", "cannot read"),
        (b"PK\x03\x04", "cannot read"),
    ],
)
def test_files_that_do_not_fit(
    uopc: Any, write: Callable[[str], str], tmp_path: Path, array: Any, said: str
) -> None:
    path = tmp_path / "a.npy"
    if isinstance(array, bytes):
        path.write_bytes(array)
    else:
        np.save(path, array)
    code, out, err = uopc("run", write(GEMM), "--input", f"0={path}")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%0 = frob", 2),
        ("%0 = buffer 4 : dtype=f32 slot=0\n%1 = reduce %0 : op=add pop=2", 3),
        ("%0 = buffer 4 : dtype=f32 slot=0\n%1 = store %0, %0\n%2 = neg %0", 3),
        (f"%0 = buffer {10**30} : dtype=f32 slot=0\n", 5),
        (f"%0 = const 1 : dtype=f32\n%1 = reshape %0, (1,)\n%2 = expand %1, ({10**15},)\n%3 = neg %2", 5),
    ],
)
def test_exit_codes_of_programs(uopc: Any, write: Callable[[str], str], text: str, code: int) -> None:
    got, out, err = uopc("run", write(text))
    assert (got, out) == (code, "")
    assert "Traceback" not in err


# uopc show


def test_show_prints_the_graph(uopc: Any, write: Callable[[str], str]) -> None:
    path = write(GEMM)
    root = parse_uir(GEMM).root
    assert uopc("show", path) == uopc("show", path, "--tree") == (0, root.tree() + "\n", "")
    assert uopc("show", path, "--dot") == (0, to_dot(root), "")
    assert uopc("show", path, "--svg") == (0, to_svg(root), "")
    code, out, err = uopc("show", path, "--svg", "--dot")
    assert (code, out) == (1, "")
    assert "not allowed with" in err
    assert uopc("show", write("%0 = frob"))[0] == 2


# uopc doctor


def test_doctor_collects_what_packages_report(uopc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def get_backend(name: str) -> None:
        if name == "CUDA":
            raise BackendError("no device", remedy="buy one")

    reports: dict[str, Any] = {
        "fine": lambda: [("ok", "compiler", "gcc 14"), ("warn", "OpenMP", "one thread")]
    }

    class Report(EntryPoint):
        def load(self) -> Any:
            return reports[self.name]

    monkeypatch.setattr(
        doctor, "entry_points", lambda group: [Report(n, n, group) for n in reports if group == "uop.doctor"]
    )
    monkeypatch.setattr(doctor, "backend_names", lambda: ("INTERP", "CUDA"))
    monkeypatch.setattr(doctor, "get_backend", get_backend)
    monkeypatch.setattr(doctor, "installed_commands", lambda: {"hello": Loaded("hello", "tests:hello", "g")})

    code, out, _ = uopc("doctor")
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    assert code == 0
    assert ["ok", "python", sys.version.split()[0]] in lines
    assert ["ok", "numpy", np.__version__] in lines
    assert ["ok", "compiler", "gcc 14"] in lines
    assert ["warn", "OpenMP", "one thread"] in lines
    assert ["ok", "backend", "INTERP".ljust(16) + "loads"] in lines
    assert any(line[:2] == ["warn", "backend"] and "no device (buy one)" in line[2] for line in lines)
    assert any(line[:2] == ["setting", "DEBUG"] for line in lines)

    reports["bad"] = lambda: [("missing", "linker", "apt install binutils")]
    code, out, _ = uopc("doctor")
    assert code == 5
    assert "apt install binutils" in out
    assert out.splitlines()[-1] == "missing: linker"


def test_a_python_program_is_run_as_python_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_it.py").write_text("value = 3\n")
    file = tmp_path / "program.py"
    file.write_text(
        "import sys\nimport beside_it\nif __name__ == '__main__':\n    print(sys.argv[1:], beside_it.value)\n"
    )
    before = [*sys.argv], [*sys.path]
    cli.run_python(str(file), ["--steps", "4"])
    assert capsys.readouterr() == ("", "['--steps', '4'] 3\n")
    file.write_text("raise ValueError(3)")
    with pytest.raises(ValueError, match="3"):
        cli.run_python(str(file))
    with pytest.raises(UopError, match=r"there is no file .*none\.py"):
        cli.run_python(str(tmp_path / "none.py"))
    assert (sys.argv, sys.path) == before


def test_a_program_or_a_model_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def entries(group: str) -> list[SimpleNamespace]:
        assert group == "uop.models"
        return [SimpleNamespace(name="small", load=lambda: lambda *given: print(given))]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "entry_points", entries)
    cli.run_python_or_model("small", ["--batch", "2"], "uopc try")
    assert capsys.readouterr() == ("", "(['--batch', '2'], 'uopc try small')\n")
    with pytest.raises(
        UopError, match=r"no file large, and no model .* \(give a Python program, or one of small\)"
    ):
        cli.run_python_or_model("large", [], "uopc try")
    Path("small").write_text("print(3)")  # a file of that name comes first
    cli.run_python_or_model("small", [], "uopc try")
    assert capsys.readouterr() == ("", "3\n")
    monkeypatch.setattr(cli, "entry_points", lambda group: [])
    with pytest.raises(UopError, match=r"there is no file large \(give a Python program\)"):
        cli.run_python_or_model("large", [], "uopc try")
