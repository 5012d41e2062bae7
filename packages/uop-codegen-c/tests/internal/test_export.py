"""An exported plan: built by make, run by itself, equal to our runtime and the interpreter to the bit."""

from __future__ import annotations

import filecmp
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import settings
from uop_codegen_c.export import export_plan
from uop_ir import (
    AddrSpace,
    BackendError,
    DType,
    Ops,
    Param,
    Plan,
    UOp,
    UopError,
    call_params,
    dtypes,
    get_backend,
    override,
)

Array = npt.NDArray[Any]
STRICT_C = "CFLAGS=-O1 -Wall -Wextra -Wconversion -Werror"
COMPILERS = [name for name in ("gcc", "clang", "clang-14") if shutil.which(name)]
SIZE = 24

X, W = UOp.param(0, SIZE, dtypes.f32), UOp.param(1, SIZE, dtypes.f32)
BIAS, UNUSED = UOp.param(2, 6, dtypes.bf16), UOp.param(9, 2, dtypes.bool)
TOTAL, WHOLE = UOp.param(3, 1, dtypes.f32), UOp.param(4, SIZE, dtypes.i64)
HALF = UOp.param(5, 6, dtypes.bf16)
N, RATE = UOp.variable("n", 1, SIZE), UOp(Ops.PARAM, (), Param(dtypes.f32, name="arg1"))
SCRATCH, MORE = (UOp.alloc(slot, SIZE, dtypes.f32, AddrSpace.GLOBAL) for slot in (0, 1))


def memory(slot: int, size: int, dtype: DType = dtypes.f32) -> UOp:
    return UOp.param(slot, size, dtype)


def call(arguments: Sequence[UOp], *stores: UOp) -> UOp:
    body = UOp.sink(*stores)
    scalars = [p for p in call_params(body) if p.arg.size is None]
    return UOp(Ops.CALL, (body, *arguments, *scalars))


def plan() -> Plan:
    """Products in scratch memory; their sum, a weight that changes,
    a part of them as integers, another in bf16.
    """
    made, seen = memory(0, SIZE), memory(1, SIZE)
    products = call([SCRATCH, X, W], made.store(seen * memory(2, SIZE)))
    after = SCRATCH.after(products)
    update = call(
        [TOTAL, after, W.after(products)],
        memory(0, 1).reshape(()).store(seen.reduce(Ops.ADD, 1) * RATE),
        memory(2, SIZE).store(memory(2, SIZE) - seen * RATE),
    )
    scaled = call([MORE, after], made.store(seen * 9.0))
    part = call(
        [WHOLE, MORE.after(scaled)],
        memory(0, SIZE, dtypes.i64).shrink(((0, N),)).store(seen.shrink(((0, N),)).cast(dtypes.i64)),
    )
    half = call(
        [HALF, after, BIAS],
        memory(0, 6, dtypes.bf16).store(seen.shrink(((2, 8),)).cast(dtypes.bf16) + memory(2, 6, dtypes.bf16)),
    )
    inputs = (X, W, BIAS, TOTAL, WHOLE, HALF)
    offsets = {0: 64, 1: 192}
    return Plan((products, update, scaled, part, half), inputs, (N, RATE), offsets, 192 + 4 * SIZE)


RNG = np.random.default_rng(0)
GIVEN = RNG.standard_normal(SIZE).astype(np.float32)
DATA: dict[str, Array] = {
    "layer.weight": RNG.standard_normal(SIZE).astype(np.float32),
    "layer.bias": RNG.standard_normal(6).astype(dtypes.bf16.numpy),
}


def export(folder: Path, name: str = "small", made: Plan | None = None, **changes: Any) -> list[Path]:
    names = {
        "inputs": {"x": X.reshape((2, 3, 4)), "un-used": UNUSED},
        "outputs": {"total": TOTAL.reshape(()), "whole": WHOLE, "half": HALF.reshape((2, 3))},
        "weights": {"layer.weight": W.reshape((4, 6)), "layer.bias": BIAS},
        "scalars": {"n": N, "float": RATE},
        "data": DATA,
    }
    return export_plan(folder, name, made or plan(), **{**names, **changes})


def runtime(device: str, size: int, rate: float, runs: int = 1) -> list[Array]:
    """The memory of the plan after it has run on a backend."""
    backend = get_backend(device)
    zeros = [np.zeros(p.arg.size, p.dtype.numpy) for p in (TOTAL, WHOLE, HALF)]
    arrays = [GIVEN, *DATA.values(), *zeros]
    handles = [backend.allocate(a.nbytes) for a in arrays]
    for handle, array in zip(handles, arrays, strict=True):
        backend.copy_in(handle, array)
    run = backend.link(plan())
    for _ in range(runs):
        run(handles, (size, rate))
    out = [np.empty_like(a) for a in arrays]
    for handle, array in zip(handles, out, strict=True):
        backend.copy_out(handle, array)
    return out


def make(folder: Path, *options: str) -> None:
    done = subprocess.run(["make", *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    GIVEN.tofile(folder / "x")
    np.zeros(2, np.bool_).tofile(folder / "unused")
    return subprocess.run(
        ["./small", "x=x", "un-used=unused", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the plan, without freedoms of arithmetic, with every warning an error."""
    folder = tmp_path_factory.mktemp("export")
    with override(settings, strict=1):
        export(folder)
    make(folder, STRICT_C)
    return folder


@pytest.mark.parametrize("device", ["CPU", "INTERP"])
@pytest.mark.parametrize("size", [1, 17, SIZE])
def test_the_program_computes_what_the_backend_does(built: Path, device: str, size: int) -> None:
    done = program(built, f"n={size}", "float=-0x1.8p-2", "total=t", "whole=w", "half=h")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with override(settings, strict=1):
        *_, total, whole, half = runtime(device, size, -0.375)
    for file, want in (("t", total), ("w", whole), ("h", half)):
        assert (built / file).read_bytes() == want.tobytes()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("openmp", [(), ("OPENMP=",)], ids=["threads", "one"])
def test_with_freedoms_it_equals_our_runtime(compiler: str, openmp: tuple[str, ...], tmp_path: Path) -> None:
    export(tmp_path)
    make(tmp_path, STRICT_C, f"CC={compiler}", *openmp)
    assert program(tmp_path, "n=24", "float=0.1", "total=t", "half=h").returncode == 0
    *_, total, _, half = runtime("CPU", 24, float(np.float32(0.1)))
    assert (tmp_path / "t").read_bytes() == total.tobytes()
    assert (tmp_path / "h").read_bytes() == half.tobytes()


def test_it_prints_outputs_with_all_their_bits(built: Path) -> None:
    said = program(built, "n=3", "float=1").stdout.splitlines()
    with override(settings, strict=1):
        *_, total, whole, half = runtime("INTERP", 3, 1.0)
    assert said[0] == "total: shape (), dtype f32"
    assert float.fromhex(said[1]) == total[0]
    assert said[2] == "whole: shape (24,), dtype i64"
    assert [int(word) for word in said[3].split()] == whole.tolist()
    assert said[4] == "half: shape (2, 3), dtype bf16"
    assert [float.fromhex(w) for line in said[5:] for w in line.split()] == half.astype(np.float64).tolist()


USER = """\
#include "small.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    small_model *first = small_load("small.bin"), *second = small_load("small.bin");
    if (first == NULL || second == NULL || small_load("small.c") != NULL || small_load("none") != NULL) {
        return 1;
    }
    if (small_run(first, 0, 1.0f) == 0 || small_run(first, 25, 1.0f) == 0) {
        return 2;
    }
    for (size_t i = 0; i < small_outputs[1].bytes; i++) {
        if (((const char *)small_data(second, &small_outputs[1]))[i] != 0) {
            return 4;
        }
    }
    FILE *file = fopen("x", "rb");
    if (file == NULL || fread(small_input_x(first), 4, 24, file) != 24) {
        return 3;
    }
    fclose(file);
    memcpy(small_data(second, &small_inputs[0]), small_input_x(first), small_inputs[0].bytes);
    for (int i = 0; i < 3; i++) {
        small_run(first, 5, 0.5f);
    }
    small_run(second, 5, 0.5f);
    for (const small_tensor *t = small_weights; t->name != NULL; t++) {
        printf("%s %s %d %d\\n", t->name, t->dtype, t->rank, (int)t->shape[0]);
    }
    for (int i = 0; i < 24; i++) {
        printf("%a ", (double)((float *)small_data(first, &small_weights[0]))[i]);
    }
    printf("\\n%a %a\\n", (double)*small_output_total(first), (double)*small_output_total(second));
    small_free(first);
    small_free(second);
    small_free(NULL);
    return 0;
}
"""


def test_a_program_of_the_user_keeps_models_apart_and_weights_from_run_to_run(
    built: Path, tmp_path: Path
) -> None:
    program(built)
    (tmp_path / "user.c").write_text(USER)
    flags = ["-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-ffp-contract=off"]
    sources = [str(tmp_path / "user.c"), "small.c", "-o", str(tmp_path / "user"), "-lm"]
    subprocess.run(["cc", "-O1", *flags, "-I.", *sources], cwd=built, check=True)
    done = subprocess.run([tmp_path / "user"], cwd=built, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with override(settings, strict=1):
        _, w, _, total, *_ = runtime("INTERP", 5, 0.5, runs=3)
        once = runtime("INTERP", 5, 0.5)[3]
    said = done.stdout.splitlines()
    assert said[:2] == ["layer.weight f32 2 4", "layer.bias bf16 1 6"]
    assert [float.fromhex(word) for word in said[2].split()] == w.tolist()
    assert [float.fromhex(word) for word in said[3].split()] == [total[0], once[0]]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_header_is_cplusplus_too(built: Path) -> None:
    code = '#include "small.h"\nint main() { return small_load("none") == nullptr ? 0 : 1; }\n'
    (built / "user.cpp").write_text(code)
    flags = ["-Wall", "-Wextra", "-Werror", "-I.", "user.cpp", "libsmall.a", "-o", "cplusplus", "-fopenmp"]
    subprocess.run(["c++", *flags], cwd=built, check=True)
    subprocess.run(["./cplusplus"], cwd=built, check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["n=3"], "small: float: give it as float=..., f32\n"),
        (["n=30", "float=1"], "small: n=30: no argument with a value that it may have\n"),
        (["n=3", "float=1", "m=1"], "small: m=1: no argument"),
        (["n=3", "float=1", "x=Makefile"], "small: Makefile: not of the size of the input\n"),
        (["n=3", "float=1", "weights=main.c"], "small: main.c: Invalid argument\n"),
        (["n=3", "float=1", "weights=none"], "small: none: No such file or directory\n"),
        (["n=3", "float=1", "total=no/file"], "small: no/file: No such file or directory\n"),
    ],
)
def test_what_is_wrong_with_an_argument_is_told(built: Path, arguments: list[str], message: str) -> None:
    done = program(built, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stdout == ""


def test_an_input_that_is_missing_is_told(built: Path) -> None:
    GIVEN.tofile(built / "x")
    words = ["./small", "x=x", "x=x", "n=1", "float=1"]
    done = subprocess.run(words, cwd=built, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "small: un-used: give it as NAME=FILE\n")


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    files = export(tmp_path / "a")
    weight = DATA["layer.weight"].reshape(4, 6)
    export(tmp_path / "b", data={**DATA, "layer.weight": np.asfortranarray(weight)})
    names = [file.name for file in files]
    assert names == ["small.h", "small.c", "small.bin", "main.c", "Makefile"]
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", names, shallow=False) == (names, [], [])
    assert str(tmp_path) not in "".join((tmp_path / "a" / n).read_text() for n in names if n != "small.bin")


def test_other_weights_of_the_same_layout_fit(built: Path, tmp_path: Path) -> None:
    other = {name: np.ones_like(array) for name, array in DATA.items()}
    export(tmp_path, data=other)
    done = program(built, "n=1", "float=1", f"weights={tmp_path}/small.bin", "half=h")
    assert done.returncode == 0
    want = (GIVEN[2:8].astype(dtypes.bf16.numpy).astype(np.float32) + 1).astype(dtypes.bf16.numpy)
    assert (built / "h").read_bytes() == want.tobytes()


def test_weights_of_another_layout_or_length_do_not_fit(built: Path, tmp_path: Path) -> None:
    export(tmp_path, weights={"layer.weight": W.reshape((6, 4)), "layer.bias": BIAS})
    whole = (built / "small.bin").read_bytes()
    for name, data in (("longer", whole + b"\0"), ("shorter", whole[:-1])):
        (tmp_path / name).write_bytes(data)
    for name in ("small.bin", "longer", "shorter"):
        done = program(built, "n=1", "float=1", f"weights={tmp_path / name}")
        assert (done.returncode, done.stderr) == (1, f"small: {tmp_path / name}: Invalid argument\n")


@pytest.mark.parametrize("name", ["while", "file", "bytes", "first_line", "EINVAL", "malloc", "uint8_t"])
def test_a_model_may_be_called_like_a_word_of_c_or_of_the_files(name: str, tmp_path: Path) -> None:
    export(tmp_path, name)
    make(tmp_path, "CFLAGS=-O0 -Wall -Werror", "OPENMP=")
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("model", "model_"), ("EDOM", "a.b"), ("bits_of_f32", "int64_t"), ("_Bool", "typeof"),
        ("class", "k_1"), ("new", "this"),
    ],
)  # fmt: skip
def test_scalars_may_be_called_like_the_model_a_macro_a_word_or_each_other(
    first: str, second: str, tmp_path: Path
) -> None:
    export(tmp_path, scalars={first: N, second: RATE})
    make(tmp_path, STRICT_C, "OPENMP=")
    for compiler in ("cc", "c++"):
        user = tmp_path / f"user.{compiler}"
        user.write_text('#include "small.h"\nint main(void) { return small_load("none") != NULL; }\n')
        if shutil.which(compiler) is not None:
            command = [compiler, "-x", "c" if compiler == "cc" else "c++", str(user), "-fsyntax-only"]
            subprocess.run(command, check=True)


def test_names_do_not_end_the_comment_that_they_stand_in(tmp_path: Path) -> None:
    name = "*/ int a = 1; /*"
    data = {name: DATA["layer.weight"], "layer.bias": DATA["layer.bias"]}
    inputs = {"*/ int b = 1; /*": X, "un-used": UNUSED}
    outputs = {"*/ int c = 1; /*": TOTAL, "whole": WHOLE, "half": HALF}
    export(tmp_path, weights={name: W, "layer.bias": BIAS}, data=data, inputs=inputs, outputs=outputs)
    make(tmp_path, STRICT_C, "OPENMP=")


def test_outputs_may_be_one_memory_or_that_of_an_input_or_a_weight(tmp_path: Path) -> None:
    """Six outputs that are three places: each file has the bytes that the runtime leaves there."""
    outputs = {
        "total": TOTAL, "whole": WHOLE, "half": HALF, "same": HALF.reshape((3, 2)), "x again": X,
        "changed": W.reshape((24,)),
    }  # fmt: skip
    with override(settings, strict=1):
        export(tmp_path, outputs=outputs)
        x, w, _, total, whole, half = runtime("CPU", SIZE, 0.25)
    make(tmp_path, STRICT_C)
    files = [f"{name}={name}.out" for name in outputs]
    done = program(tmp_path, f"n={SIZE}", "float=0x1p-2", *files)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name, want in zip(outputs, (total, whole, half, half, x, w), strict=True):
        assert (tmp_path / f"{name}.out").read_bytes() == want.tobytes(), name


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("no-name", {}, "a model cannot be called 'no-name' in C"),
        ("Main", {}, "a model cannot be called 'Main': a file of that name is another"),
        ("stdint", {}, "a model cannot be called 'stdint'"),
        ("small", {"inputs": {"total": X}}, "two of inputs, outputs, scalars .* are called 'total'"),
        ("small", {"inputs": {"weights": X}}, "are called 'weights'"),
        ("small", {"inputs": {"x": X, "y": X}}, "y is the memory of x too"),
        ("small", {"inputs": {"x": X, "y": W}}, r"y is the memory of layer\.weight too"),
        ("small", {"inputs": {}}, "memory .* of the plan has no name"),
        ("small", {"scalars": {"n": N}}, "the scalar arg1 of the plan has no name"),
        ("small", {"data": {**DATA, "layer.bias": DATA["layer.weight"]}}, "weight layer.bias is bf16"),
        ("small", {"made": replace(plan(), offsets={})}, "has no place in an export"),
        ("small", {"inputs": {"x": X * 2.0}}, "x is not memory that C has"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UopError, match=message):
        export(tmp_path / "out", name, **changes)
    assert not (tmp_path / "out").exists()


def test_a_copy_between_devices_is_refused(tmp_path: Path) -> None:
    copied = call(
        [WHOLE, X],
        memory(0, SIZE, dtypes.i64).store(UOp(Ops.COPY, (memory(1, SIZE),), "EMU").cast(dtypes.i64)),
    )
    with pytest.raises(BackendError, match=r"Ops\.COPY"):
        export(tmp_path, made=Plan((copied,), plan().inputs))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UopError, match="cannot write to"):
        export(tmp_path / "file" / "folder")
