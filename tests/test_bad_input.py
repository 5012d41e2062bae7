"""What goes wrong outside of our programs:
one line that says what and where, the right exit code, and nothing lost.

Ctrl-C in training, texts that are too short, and folders that cannot be written stand in test_training.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

from uop_ir import UopError, dtypes
from uop_nn import CharTokenizer, Gpt, GptConfig, save_checkpoint
from uop_tensor import Tensor

UOPC = str(Path(sys.executable).parent / "uopc")
TASTE = """
import numpy as np
from uopc import Tensor
print((Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)) * 2 + 1).relu().sum(1).numpy())
print(Tensor(np.eye(3, dtype=np.float32)).softmax().sum().item(), (Tensor([1, 2, 3]) @ Tensor([4, 5, 6])).item())
"""
TASTED = "[ 9. 27.]\n3.0 32\n"
#: A GPT that compiles and trains in a moment.
SMALL = ["--steps", "2", "--batch", "2", "--context", "4", "--layers", "1", "--width", "8", "--heads", "2"]


def run(*command: str, folder: Path, cache: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "UOP_CACHE": str(cache), "DEV": "", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """The command failed with this code, and said so in one line with these parts."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("uopc: error: ")]
    assert done.stderr.endswith(f"{said}\n")
    for part in parts:
        assert part in said


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that these tests share: what each is about is not compilation."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def uopc(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command within this process, where it starts in no time:
    an exception that leaves it fails the test.
    """
    (command,) = (e for e in entry_points(group="console_scripts") if e.name == "uopc")
    main = command.load()
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return call


@pytest.fixture
def text(tmp_path: Path) -> list[str]:
    (tmp_path / "text.txt").write_text("the quick brown fox\n" * 20)
    return ["train", "gpt", "--text", "text.txt", "--out", "run", *SMALL]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A GPT that has not been trained."""
    tokenizer = CharTokenizer("ab\n")
    config = {"vocabulary": 3, "context": 4, "layers": 1, "width": 8, "heads": 2}
    model = Gpt(GptConfig(**config), np.random.default_rng(0))
    tensors = {f"model.{name}": t.numpy() for name, t in model.state_dict().items()}
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, tensors, {"kind": "gpt", "config": config, "tokenizer": tokenizer.to_dict()})
    return path


# programs

A, B = "%0 = buffer 16 : dtype=f32 slot=0\n", "%1 = buffer 12 : dtype=f32 slot=1\n"


@pytest.mark.parametrize(
    ("program", "code", "place", "what"),
    [
        (f"{A}{B}%2 = add %0, %1\n", 3, (3, 6), "shapes (16,) and (12,) do not broadcast"),
        (f"{A}%1 = buffer 16 : dtype=i32 slot=1\n%2 = add %0, %1\n", 3, (3, 6), "dtype mismatch f32 vs i32"),
        (f"{A}%1 = reshape %0, (3, 5)\n", 3, (2, 18), "does not have as many elements"),
        (f"{A}%1 = reduce %0 : op=add pop=2\n", 3, (2, 29), "pops 2 axes"),
        (f"{A}%1 = frobnicate %0\n", 2, (2, 6), "frobnicate"),
        (f"{A}%1 = neg %7\n", 2, (2, 10), "%7"),
        ("%0 = neg\n\xff", 2, (2, 1), "a byte that is not UTF-8"),
        ("%0 = buffer 16 : dtype=f99 slot=0\n", 2, (1, 24), "f99"),
    ],
)
def test_a_program_with_a_fault(
    program: str,
    code: int,
    place: tuple[int, int],
    what: str,
    tmp_path: Path,
    uopc: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """File, line, column, and a caret below the fault; the same from `run` and from `compile`."""
    (tmp_path / "p.uir").write_text(program, encoding="latin-1")
    said = set()
    for command in ("run", "compile"):
        done = uopc(command, "p.uir")
        assert done.returncode == code, done.stderr
        said.add(done.stderr)
    (error,) = said
    line, column = place
    first, shown, caret = error.splitlines()
    assert first.startswith(f"p.uir:{line}:{column}: error: ")
    assert what in first
    assert shown == f"  {program.splitlines()[line - 1]}".replace("\xff", "\N{REPLACEMENT CHARACTER}")
    assert caret.startswith(f"  {' ' * (column - 1)}^")


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        ([], 1, "no command given"),
        (
            ["frobnicate"],
            1,
            "no command 'frobnicate' (installed: cache, check-gpu, compile, doctor, explain, export, profile, prove, run, sample, show, trace",
        ),
        (["run", "--frobnicate"], 1, "--help"),
        (["run", "missing.uir"], 1, "missing.uir"),
        (["run", "."], 1, "."),
        (["run", "x.uir", "--input", "0=missing.npy"], 1, "cannot read 'missing.npy'"),
        (
            ["run", "x.uir", "--input", "0=short.npy"],
            1,
            "'short.npy' has 3 elements, %0 (buffer slot=0) has 16",
        ),
        (["run", "x.uir", "--input", "0=wide.npy"], 1, "'wide.npy' is of dtype float64"),
        (["run", "x.uir", "--input", "0=text.npy"], 1, "a file that numpy.save wrote"),
        (["run", "x.uir", "--input", "5=short.npy"], 1, "no memory is named '5'"),
        (["compile", "x.uir", "--emit", "frobnicate"], 1, "invalid choice: 'frobnicate'"),
    ],
)
def test_arguments_that_will_not_do(
    arguments: list[str],
    code: int,
    what: str,
    tmp_path: Path,
    uopc: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    (tmp_path / "x.uir").write_text(f"{A}%1 = neg %0\n")
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "short.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "wide.npy", np.zeros(16))
    one_line(uopc(*arguments), code, what)


def test_the_exit_code_leaves_the_process(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "p.uir").write_text(f"{A}{B}%2 = add %0, %1\n")
    done = run(UOPC, "run", "p.uir", folder=tmp_path, cache=cache)
    assert done.returncode == 3
    assert done.stderr.startswith("p.uir:3:6: error: ")


@pytest.mark.parametrize(
    ("env", "code", "what"),
    [({"DEBUG": "much"}, 1, "DEBUG='much' is not an integer"), ({"DEV": "TPU"}, 5, "no backend 'TPU'")],
)
def test_settings_that_will_not_do(
    env: dict[str, str], code: int, what: str, text: list[str], tmp_path: Path, cache: Path
) -> None:
    done = run(UOPC, *text, folder=tmp_path, cache=cache, **env)
    one_line(done, code, what)


X = Tensor(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("mistake", "parts"),
    [
        (lambda: X + Tensor(np.zeros(2, np.float32)), ("(2, 3)", "(2,)", "broadcast")),
        (lambda: X @ X, ("(2, 3)", "3 columns meet 2 rows")),
        (lambda: X.reshape(4, 2), ("(2, 3)", "6 elements", "(4, 2)")),
        (lambda: X.cat(Tensor(np.zeros((2, 4), np.float32))), ("(2, 4)", "(2, 3)", "axis 0")),
        (lambda: X.sum(2), ("axis 2", "2 axes")),
        (lambda: X[2], ("2", "size 2", "from -2 to 1")),
        (lambda: X[X[:1] < 1], ("(1, 3)", "(2, 3)")),
        (lambda: X.cross_entropy(Tensor([1.0, 2.0])), ("integer", "cast")),
        (lambda: X.cross_entropy(Tensor([1, 2, 0])), ("(3,)", "(2, 3)")),
        (lambda: X & X, ("f32", "cast")),
        (lambda: Tensor([1]).cast(dtypes.u64) + Tensor([1]), ("u64", "i64", "cast")),
        (lambda: Tensor([[1, 2], [3]]), ("nested lists", "equal length")),
        (lambda: Tensor([1, 2], requires_grad=True), ("i64", "float")),
        (lambda: X.backward(), ("requires_grad",)),
        (lambda: X.gradient(X), ("(2, 3)", "seed")),
        (lambda: X.assign(Tensor(np.zeros((3, 2), np.float32))), ("(3, 2)", "(2, 3)")),
        (lambda: X + Tensor(np.zeros((2, 3), np.float32), device="INTERP"), ("CPU", "INTERP", ".to(")),
        (lambda: X.to("TPU").numpy(), ("no backend 'TPU'", "installed")),
    ],
)
def test_tensors_that_do_not_go_together(mistake: Callable[[], object], parts: tuple[str, ...]) -> None:
    with pytest.raises(UopError) as raised:
        mistake()
    said = str(raised.value)
    assert "\n" not in said
    for part in parts:
        assert part in said, said


# compilers


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ({"CC": "no-such-compiler"}, "no C compiler: CC='no-such-compiler' is not there"),
        ({"CC": "", "PATH": ""}, "no C compiler"),
        ({"CC": "'"}, 'CC="\'"'),
        ({"CC": "true"}, "C compiler"),
        ({"CC": "false"}, "is no C compiler"),
    ],
)
def test_no_compiler(env: dict[str, str], what: str, checkpoint: Path, tmp_path: Path) -> None:
    """The remedy says what to install."""
    done = run(UOPC, "sample", str(checkpoint), folder=tmp_path, cache=tmp_path / "cache", **env)
    one_line(done, 5, what)
    assert not list(tmp_path.rglob("*.so"))


def test_a_compiler_that_fails(checkpoint: Path, tmp_path: Path) -> None:
    """Its text is in the message, and so is the file that it was given, which is kept."""
    script = tmp_path / "cc"
    script.write_text(
        '#!/bin/sh\nfor a; do [ "$a" = -o ] && echo "out of ink" && exit 1; done\nexec cc "$@"\n'
    )
    script.chmod(0o755)
    sample = (UOPC, "sample", str(checkpoint), "--length", "5")
    done = run(*sample, folder=tmp_path, cache=tmp_path / "cache", CC=str(script))
    one_line(done, 5, "out of ink", "failed with status 1")
    (kept,) = {word for word in done.stderr.split() if word.endswith(".c")}
    assert "void k_" in Path(kept).read_text()
    # a compiler that works then has nothing left over to stumble on
    again = run(*sample, folder=tmp_path, cache=tmp_path / "cache")
    assert again.returncode == 0
    assert len(again.stdout) == 6


@pytest.mark.parametrize("cache_is", ["a file", "below a file"])
def test_a_cache_that_cannot_be_written(cache_is: str, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    cache = folder if cache_is == "a file" else folder / "cache"
    done = run(UOPC, "sample", str(checkpoint), folder=tmp_path, cache=cache)
    one_line(done, 5, f"kernel cache {folder}", "set UOP_CACHE to a folder that can be written")


# the cache


def tasted(folder: Path, cache: Path) -> None:
    done = run(sys.executable, "-c", TASTE, folder=folder, cache=cache)
    assert (done.stdout, done.stderr) == (TASTED, "")


def test_objects_that_were_cut_short_are_compiled_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    tasted(tmp_path, cache)
    objects = sorted(cache.rglob("*.so"))
    assert len(objects) > 2
    for left in (0, 1000, -1):
        for path in objects:
            path.write_bytes(path.read_bytes()[:left])
        tasted(tmp_path, cache)


def test_processes_that_compile_the_same_at_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    env = {**os.environ, "UOP_CACHE": str(cache), "DEV": ""}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TASTE], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert {process.communicate(timeout=120) for process in started} == {(TASTED, "")}
    assert not list(cache.rglob("work-*"))


def test_a_process_that_is_killed_while_it_compiles(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    env = {**os.environ, "UOP_CACHE": str(cache), "DEV": ""}
    command = [sys.executable, "-c", TASTE]
    with subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        while not any("openmp" not in path.name for path in cache.rglob("work-*/*.c")):
            assert process.poll() is None
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
    tasted(tmp_path, cache)
    tasted(tmp_path, cache)


@pytest.mark.slow
def test_processes_that_are_killed_at_any_moment(tmp_path: Path) -> None:
    """One cache goes through it all; a process that is left alone is right each time."""
    cache = tmp_path / "cache"
    env = {**os.environ, "UOP_CACHE": str(cache), "DEV": ""}
    for number in range(40):
        command = [sys.executable, "-c", TASTE.replace("+ 1", f"+ {number}")]
        with subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05 * number)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if number % 8 == 7:
            tasted(tmp_path, cache)


# checkpoints


@pytest.mark.parametrize("left", [0, 7, 100, -1])
def test_a_checkpoint_that_was_cut_short(left: int, checkpoint: Path, tmp_path: Path, cache: Path) -> None:
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[:left])
    done = run(UOPC, "sample", str(checkpoint), folder=tmp_path, cache=cache)
    one_line(done, 1, str(checkpoint), "not a safetensors file, or is truncated")
    assert checkpoint.read_bytes() == data[:left]


def test_a_checkpoint_of_something_else(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_checkpoint(path, {"x": np.zeros(3)}, {"kind": "mnist"})
    one_line(run(UOPC, "sample", str(path), folder=tmp_path, cache=cache), 1, "of kind mnist, not of a GPT")


def test_ctrl_c_while_sampling(checkpoint: Path, tmp_path: Path, cache: Path) -> None:
    command = [UOPC, "sample", str(checkpoint), "--length", "100000000", "--prompt", "ab"]
    env = {**os.environ, "UOP_CACHE": str(cache), "DEV": ""}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(20).startswith("ab")
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "uopc: interrupted\n"


def test_a_sample_with_a_prompt_that_the_model_does_not_know(
    checkpoint: Path, tmp_path: Path, cache: Path
) -> None:
    one_line(run(UOPC, "sample", str(checkpoint), "--prompt", "z", folder=tmp_path, cache=cache), 1, "'z'")
