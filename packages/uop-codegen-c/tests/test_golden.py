"""The C of a few kernels, whole: what a reader sees. Each is also run, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import CpuBackend, Freedoms, generate, render
from uop_ir import Ops, Plan, UOp, VerifyError, dtypes

PLAIN = Freedoms(optimize=False, contract=False, reassociate=False)


def c_body(body: UOp, freedoms: Freedoms = PLAIN) -> str:
    """The statements of a kernel's loops: without the head and the arguments."""
    lines = generate(body, freedoms).text.splitlines()[1:-1]
    return "\n".join(line[4:] for line in lines if "buffers[" not in line and "(void)" not in line)


def taste() -> UOp:
    x = UOp.param(1, 6, dtypes.f32).reshape((2, 3))
    value = (x * 2.0 + 1.0).maximum(0.0).reduce(Ops.ADD, 1)
    return UOp.sink(UOp.param(0, 2, dtypes.f32).store(value))


def matmul(n: int) -> UOp:
    a, b = UOp.param(1, n * n, dtypes.f32), UOp.param(2, n * n, dtypes.f32)
    product = a.reshape((n, 1, n)) * b.reshape((n, n)).permute((1, 0)).reshape((1, n, n))
    return UOp.sink(UOp.param(0, n * n, dtypes.f32).reshape((n, n)).store(product.reduce(Ops.ADD, 1)))


def embedding(vocabulary: int, width: int, count: int) -> UOp:
    """The rows of a table that integers name, as a sum over one-hot rows."""
    table = UOp.param(1, vocabulary * width, dtypes.f32).reshape((1, vocabulary, width))
    which = UOp.param(2, count, dtypes.i32).reshape((count, 1, 1))
    rows = UOp(Ops.STACK, [UOp.const(dtypes.i32, i) for i in range(vocabulary)]).reshape((1, vocabulary, 1))
    shape = (count, vocabulary, width)
    picked = rows.eq(which).expand(shape).where(table.expand(shape), 0.0)
    value = picked.permute((0, 2, 1)).reduce(Ops.ADD, 1)
    return UOp.sink(UOp.param(0, count * width, dtypes.f32).reshape((count, width)).store(value))


def test_elementwise_and_sum_are_one_loop_nest() -> None:
    assert c_body(taste()) == (
        "for (int ridx0 = 0; ridx0 < 2; ridx0++) {\n"
        "    float acc0 = 0.0f;\n"
        "    for (int ridx1 = 0; ridx1 < 3; ridx1++) {\n"
        "        acc0 = acc0 + max_f32(data1[ridx0*3+ridx1] * 2.0f + 1.0f, 0.0f);\n"
        "    }\n"
        "    data0[ridx0] = acc0;\n"
        "}"
    )


def test_matmul_is_a_triple_loop() -> None:
    assert c_body(matmul(4)) == (
        "for (int ridx0 = 0; ridx0 < 4; ridx0++) {\n"
        "    for (int ridx1 = 0; ridx1 < 4; ridx1++) {\n"
        "        float acc0 = 0.0f;\n"
        "        for (int ridx2 = 0; ridx2 < 4; ridx2++) {\n"
        "            acc0 = acc0 + data1[ridx0*4+ridx2] * data2[ridx2*4+ridx1];\n"
        "        }\n"
        "        data0[ridx0*4+ridx1] = acc0;\n"
        "    }\n"
        "}"
    )


def test_what_an_inner_loop_uses_has_a_name_outside_of_it() -> None:
    a, b = (UOp.param(slot, 3, dtypes.f32) for slot in (1, 2))
    value = a.alu(Ops.SQRT).reshape((3, 1)) * b.reshape((1, 3))
    assert c_body(UOp.sink(UOp.param(0, 9, dtypes.f32).reshape((3, 3)).store(value))) == (
        "for (int ridx0 = 0; ridx0 < 3; ridx0++) {\n"
        "    float val0 = sqrt_f32(data1[ridx0]);\n"
        "    for (int ridx1 = 0; ridx1 < 3; ridx1++) {\n"
        "        data0[ridx0*3+ridx1] = val0 * data2[ridx1];\n"
        "    }\n"
        "}"
    )


def test_contraction_is_one_fused_operation() -> None:
    """Which counts as the two that it is."""
    assert generate(matmul(4), Freedoms(optimize=False)).flops == generate(matmul(4), PLAIN).flops == 2 * 4**3
    text = c_body(matmul(4), Freedoms(optimize=False, contract=True, reassociate=False))
    assert "acc0 = fma_f32(data1[ridx0*4+ridx2], data2[ridx2*4+ridx1], acc0);" in text


def test_an_embedding_has_no_loop_over_the_vocabulary() -> None:
    assert c_body(embedding(65, 4, 5)) == (
        "for (int ridx0 = 0; ridx0 < 5; ridx0++) {\n"
        "    int32_t val0 = data2[ridx0];\n"
        "    _Bool val1 = (val0 < 65) & (-1 < val0);\n"
        "    for (int ridx1 = 0; ridx1 < 4; ridx1++) {\n"
        "        data0[ridx0*4+ridx1] = (val1 ? data1[val0*4+ridx1] : 0) + 0.0f;\n"
        "    }\n"
        "}"
    )


def test_pad_is_a_masked_load() -> None:
    x = UOp.param(1, 6, dtypes.f32).pad(((1, 2),))
    assert c_body(UOp.sink(UOp.param(0, 9, dtypes.f32).store(x))) == (
        "for (int ridx0 = 0; ridx0 < 9; ridx0++) {\n"
        "    data0[ridx0] = ((0 < ridx0) & (ridx0 < 7)) ? data1[ridx0-1] : 0;\n"
        "}"
    )


def test_a_matmul_with_optimizer_has_vectors_and_a_tile(run_cpu: Callable[..., Any]) -> None:
    body = matmul(64)
    assert "x" in generate(body, Freedoms()).preamble
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    out = run_cpu(body, [np.zeros(4096, np.float32), a.reshape(-1), b.reshape(-1)])[0]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 64 * np.finfo(np.float32).eps * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(out.reshape(64, 64) - exact) <= bound).all()


def test_in_place_is_one_argument_at_one_element(run_cpu: Callable[..., Any]) -> None:
    x = UOp.param(0, 6, dtypes.f32)
    body = UOp.sink(x.store(x * 2.0 - x.reduce(Ops.ADD, 1)))  # the sum is read before all loops
    given = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(run_cpu(body, [given])[0], given * 2 - 15)


def test_what_a_linear_program_loads_before_it_stores_is_read_before() -> None:
    r, a, b = UOp.range(4, 0), *(UOp.param(slot, 4, dtypes.f32) for slot in (0, 1))
    old = a.index(r).load()
    zeros, copied = a.index(r).store(old.const_like(0.0)), b.index(r).store(old)
    both = UOp.sink(zeros, copied)
    sources = [n for n in UOp.sink(old, both).toposort() if n.op not in (Ops.STORE, Ops.SINK)]
    said = render("kernel", [*sources, zeros, copied, both, both.end(r)], [a, b])[1]
    assert (
        said.index("= data0[ridx0];")
        < said.index("data0[ridx0] = 0.0f;")
        < said.index("data1[ridx0] = val0;")
    )


@pytest.mark.parametrize("size", [3, 64])
def test_two_memories_are_exchanged_in_place(run_cpu: Callable[..., Any], size: int) -> None:
    """Both are read before one is stored."""
    a, b = (UOp.param(slot, size, dtypes.f32) for slot in (0, 1))
    given = [np.arange(size, dtype=np.float32), -np.ones(size, np.float32)]
    got = run_cpu(UOp.sink(a.store(b), b.store(a)), given)
    np.testing.assert_array_equal(got, given[::-1])


@pytest.mark.parametrize("size", [3, 64, 100])
def test_one_memory_as_two_arguments(cpu: CpuBackend, size: int) -> None:
    """The pointers of a kernel are not restrict:
    where each element is read before it is written, all is as ever.
    """
    params = tuple(UOp.param(slot, size, dtypes.f32) for slot in range(3))
    body = UOp.sink(params[0].store((params[1] * 2.0 + params[2]).maximum(params[1])))
    assert "restrict" not in generate(body, Freedoms()).text
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    memory = cpu.allocate(x.nbytes)
    cpu.copy_in(memory, x)
    cpu.link(Plan((UOp(Ops.CALL, (body, *params)),), params))([memory] * 3, [])
    out = np.empty_like(x)
    cpu.copy_out(memory, out)
    np.testing.assert_array_equal(out, np.maximum(x * 2 + x, x))


@pytest.mark.parametrize("other", ["flipped", "summed with a weight"])
def test_in_place_at_another_element_is_refused(other: str) -> None:
    x = UOp.param(0, 6, dtypes.f32)
    weight = UOp.param(1, 36, dtypes.f32).reshape((6, 6))
    value = x.flip((True,)) if other == "flipped" else (x.reshape((1, 6)) * weight).reduce(Ops.ADD, 1)
    with pytest.raises(VerifyError, match="argument 0 is stored to, and read at another element"):
        generate(UOp.sink(x.store(value)))


def test_the_same_graph_gives_the_same_text() -> None:
    assert generate(matmul(32)) == generate(matmul(32))


def test_picked_rows_are_those_of_numpy_and_zero_outside(run_cpu: Callable[..., Any]) -> None:
    table = np.random.default_rng(0).standard_normal((65, 4)).astype(np.float32)
    which = np.array([3, -1, 64, 65, 0], np.int32)
    out = run_cpu(embedding(65, 4, 5), [np.zeros(20, np.float32), table.reshape(-1), which])[0].reshape(5, 4)
    want = np.stack([table[i] if 0 <= i < 65 else np.zeros(4, np.float32) for i in which])
    np.testing.assert_array_equal(out, want)
