"""The upkeep of the kernel cache, by functions and by `uopc cache`: beside processes that compile and run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from uop_codegen_c.cache import DAY_SECONDS, STALE_SECONDS, KernelSource, build
from uop_codegen_c.cache_command import cache_command
from uop_codegen_c.generated import remembered
from uop_codegen_c.loader import ffi, load
from uop_codegen_c.settings import settings
from uop_codegen_c.upkeep import damaged, inventory, prune
from uop_ir import BackendError, UOp, UopError, dtypes, override


def kernel(number: int) -> KernelSource:
    """out = number."""
    signature = f"void k_{number}(void *const *buffers, const int64_t *scalars)"
    lines = f"    (void)scalars;\n    *(int64_t *)buffers[0] = {number};\n"
    return KernelSource(f"k_{number}", "#include <stdint.h>", f"{signature};\n\n{signature}\n{{\n{lines}}}\n")


def results(kernels: Sequence[KernelSource]) -> list[int]:
    out, found = ffi.new("int64_t *"), []
    for function in load(kernels):
        function(ffi.new("void *[]", [out]), ffi.NULL)
        found.append(out[0])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with override(settings, uop_cache=str(tmp_path / "cache"), cc=""):
        yield tmp_path / "cache" / "c"


def body(number: int) -> UOp:
    return UOp.sink(UOp.param(0, 8, dtypes.f32).store(UOp.param(1, 8, dtypes.f32) * float(number)))


def fill(folder: Path, count: int = 3) -> list[Path]:
    """So many kernels, each in an object of its own, one text, and a source that did not compile."""
    objects = [build([kernel(n)])[0] for n in range(count)]
    remembered(body(2))
    with pytest.raises(BackendError):
        build([KernelSource("bad", "", "no C")])
    return objects


def aged(path: Path, days: float) -> Path:
    then = time.time() - days * DAY_SECONDS
    os.utime(path, (then, then))
    return path


def names(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.glob(pattern)}


# what is there


def test_what_is_there_is_counted(folder: Path) -> None:
    objects = fill(folder)
    build([kernel(8), kernel(9)])
    found = inventory(folder)
    assert {kind: found[kind].count for kind in found} == {
        "kernels": 5,
        "objects": len(names(folder, "*.so")),
        "texts": 1,
        "tuned": 0,
        "rooflines": 0,
        "failed": 1,
        "unfinished": 0,
    }
    assert found["objects"].bytes == sum(path.stat().st_size for path in folder.glob("*.so"))
    assert found["objects"].bytes > sum(path.stat().st_size for path in objects)
    # a kernel is a link, and as long as the name of its object; one to nothing is there too
    assert found["kernels"].bytes == 5 * len(objects[0].name)
    objects[0].unlink()
    assert inventory(folder)["kernels"] == found["kernels"]


def test_an_empty_cache(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cache_command([]) == cache_command(["verify"]) == cache_command(["prune", "--days", "0"]) == 0
    assert f"{folder}: 0 objects and 0 texts, 0 files damaged" in capsys.readouterr().out


def test_size_prints_a_line_a_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    for argv in ([], ["size"]):
        assert cache_command(argv) == 0
        first, *lines = capsys.readouterr().out.splitlines()
        assert first == str(folder)
        assert [(words[0], words[1]) for words in map(str.split, lines)] == [
            ("kernels", "3"),
            ("objects", "3"),
            ("texts", "1"),
            ("tuned", "0"),
            ("rooflines", "0"),
            ("failed", "1"),
            ("unfinished", "0"),
        ]


# verify


def test_a_cache_that_is_whole_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    before = names(folder, "*")
    assert cache_command(["verify"]) == 0
    assert capsys.readouterr().out == f"{folder}: 3 objects and 1 texts, 0 files damaged\n"
    assert names(folder, "*") == before


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "append"])
def test_what_is_damaged_goes_and_is_told(
    folder: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = fill(folder)
    (text,) = folder.glob("*.json")
    for path in (objects[1], text):
        data = path.read_bytes()
        changed = {
            "flip": data[:70] + bytes([data[70] ^ 1]) + data[71:],
            "truncate": data[:-1],
            "empty": b"",
            "append": data + b"\0",
        }
        path.write_bytes(changed[damage])
    assert cache_command(["verify"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"removed {objects[1].name}: it is not what its name says",
        f"removed {text.name}: it is not what its digest says",
        f"{folder}: 3 objects and 1 texts, 2 files damaged",
    ]
    assert names(folder, "*.so") == {objects[0].name, objects[2].name}
    assert {path.readlink().name for path in folder.glob("*.k")} == names(folder, "*.so")
    assert damaged(folder) == []
    assert results([kernel(n) for n in range(3)]) == [0, 1, 2]
    assert remembered(body(2)).text
    assert objects[1].exists()


def test_a_folder_in_place_of_a_file_is_damaged(folder: Path) -> None:
    objects = fill(folder)
    (text,) = folder.glob("*.json")
    for path in (objects[1], text):
        path.unlink()
        (path / "inside").mkdir(parents=True)
    assert [path for path, _ in damaged(folder)] == [objects[1], text]
    assert damaged(folder) == []


def test_verify_does_not_count_as_a_use(folder: Path) -> None:
    objects = fill(folder)
    paths = [aged(path, 5) for path in (*objects, *folder.glob("*.json"))]
    damaged(folder)
    assert prune(folder, seconds=4 * DAY_SECONDS).count == len(paths)


# prune


def test_prune_by_age(folder: Path) -> None:
    objects = fill(folder)
    aged(objects[0], 10)
    aged(objects[1], 3)
    (failed,) = (folder / "failed").iterdir()
    aged(failed, 30)
    gone = prune(folder, seconds=5 * DAY_SECONDS)
    assert gone.count == 2
    assert names(folder, "*.so") == {objects[1].name, objects[2].name}
    assert {path.readlink().name for path in folder.glob("*.k")} == names(folder, "*.so")
    assert not failed.exists()
    assert inventory(folder)["texts"].count == 1


def test_prune_to_a_size_takes_the_oldest_first(folder: Path) -> None:
    objects = fill(folder)
    for path, days in zip(objects, (1, 3, 2), strict=True):
        aged(path, days)
    whole = sum(inventory(folder)[kind].bytes for kind in ("objects", "texts", "failed"))
    assert prune(folder, size=whole).count == 0
    gone = prune(folder, size=whole - 1)
    assert (gone.count, names(folder, "*.so")) == (1, {objects[0].name, objects[2].name})
    assert prune(folder, size=0).count == 4
    assert not [path for path in folder.rglob("*") if path.suffix in (".so", ".k", ".json", ".c")]


def test_prune_takes_dead_compilations_and_leaves_those_under_way(folder: Path) -> None:
    build([kernel(1)])
    dead, alive = folder / "work-dead", folder / "work-alive"
    for path in (dead, alive):
        path.mkdir()
        (path / "x.so").touch()
    (folder / "work-text").touch()
    find = folder / "tuned" / "cpu" / "work-find"
    find.parent.mkdir(parents=True)
    find.touch()
    assert inventory(folder)["unfinished"].count == 4
    for path in (dead, find):
        aged(path, (STALE_SECONDS + 60) / DAY_SECONDS)
    prune(folder, seconds=0, size=0)
    assert (dead.exists(), alive.exists(), find.exists()) == (False, True, False)


def test_what_is_loaded_runs_on_when_its_file_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = [kernel(n) for n in range(20, 24)]
    out, functions = ffi.new("int64_t *"), load(kernels)
    assert cache_command(["prune", "--megabytes", "0"]) == 0
    assert "files removed" in capsys.readouterr().out
    assert names(folder, "*.so") == set()
    for number, function in enumerate(functions):
        function(ffi.new("void *[]", [out]), ffi.NULL)
        assert out[0] == 20 + number
    assert results(kernels) == [20, 21, 22, 23]  # found gone, and compiled anew


CHILD = """
    import sys
    from test_upkeep import kernel, results
    for turn in range(int(sys.argv[1])):
        numbers = range(turn % 3, turn % 3 + 3)
        assert results([kernel(n) for n in numbers]) == list(numbers)
    print("done")
"""


def test_processes_go_on_while_the_cache_is_pruned(folder: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    code = "\n".join(line.removeprefix("    ") for line in CHILD.splitlines())
    environment = {**os.environ, "UOP_CACHE": str(folder.parent), "PYTHONPATH": path}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, "4"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    while any(process.poll() is None for process in children):
        prune(folder, size=0)
        assert damaged(folder) == []
        time.sleep(0.02)
    assert [process.communicate() for process in children] == [("done\n", "")] * 2


# the command


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["prune"], "nothing to go by"),
        (["prune", "--days", "-1"], "'-1' is no amount"),
        (["prune", "--days", "soon"], "'soon' is no amount"),
        (["prune", "--megabytes", "nan"], "'nan' is no amount"),
        (["clear"], "invalid choice"),
        (["verify", "--days", "3"], "unrecognized arguments"),
    ],
)
def test_mistakes_are_told(folder: Path, argv: list[str], what: str) -> None:
    with pytest.raises(UopError, match=what) as caught:
        cache_command(argv)
    assert caught.value.exit_code == 1
    assert caught.value.remedy
