"""Instructions: products of tiles that the tensor cores of a GPU compute, a row an instruction. Week 8.

A warp has a tile of each matrix in its registers, each lane a few elements of it. Which ones, the bits of
the lane's number and of the element's number in the lane say: each is a bit of the row or of the column.
(PTX ISA, Warp Level Matrix Multiply-Accumulate Instructions.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from uop_ir import DType, UOp, dtypes

Number = TypeVar("Number", int, UOp)
#: The C type of an element in a register.
ELEMENT = {
    dtypes.f16: "uint16_t",
    dtypes.bf16: "uint16_t",
    dtypes.f32: "float",
    dtypes.i8: "int8_t",
    dtypes.i32: "int32_t",
}


@dataclass(frozen=True)
class Layout:
    """Which elements of a tile a lane has.

    `rows` and `columns` name the bit that stands for each bit of the row and of the column, lowest first:
    `l0` is the lowest bit of the lane's number, `e0` that of the element's number in the lane.
    """

    rows: str
    columns: str

    @property
    def elements(self) -> int:
        """How many elements a lane has."""
        return 1 << sum(bit[0] == "e" for bit in f"{self.rows} {self.columns}".split())

    def place(self, lane: Number, element: int) -> tuple[Number, Number]:
        """The row and the column of an element of a lane."""
        return _number(self.rows, lane, element), _number(self.columns, lane, element)


def _number(bits: str, lane: Number, element: int) -> Number:
    """The number with these bits, each of a lane's number or of an element's."""
    total = lane * 0
    names = [(bit[0], int(bit[1:])) for bit in bits.split()]
    for (kind, _), group in groupby(enumerate(names), lambda at: (at[1][0], at[1][1] - at[0])):
        places = list(group)
        (place, (_, first)), count = places[0], len(places)
        if kind == "e":
            total = total + ((element >> first) % (1 << count) << place)
        else:
            total = total + lane // (1 << first) % (1 << count) * (1 << place)
    return total


@dataclass(frozen=True)
class Instruction:
    """A product of tiles, `a @ b + c`: a of m x k, b of k x n, c of m x n.

    `operand` is the type of an element of a and b, `accumulator` that of c. `types` are those of c, a, b and
    c again, as PTX spells them.
    """

    shape: tuple[int, int, int]
    operand: DType
    accumulator: DType
    types: str
    a: Layout
    b: Layout
    c: Layout

    @property
    def rounds(self) -> bool:
        """Whether it rounds its operands: that changes a value, which only a program may ask for."""
        return self.operand is dtypes.f32

    @property
    def size(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}"

    @property
    def name(self) -> str:
        return f"mma_{self.size}_{self.types.split('.')[1]}"

    def device_text(self) -> str:
        """The function that is the instruction, for the device; the emulator has its own by the same name."""
        taken = [f"{_vector(t, layout.elements)} {x}" for t, layout, x in zip(
            (self.operand, self.operand, self.accumulator), (self.a, self.b, self.c), "abc", strict=True)]  # fmt: skip
        words = [layout.elements * self.operand.itemsize // 4 for layout in (self.a, self.b)]
        numbers = iter(range(sum(words) + self.c.elements))
        results, *operands = (
            "{" + ", ".join(f"%{next(numbers)}" for _ in range(n)) + "}" for n in (self.c.elements, *words)
        )
        kind = "f" if self.accumulator.is_float else "r"
        written = ", ".join(f'"+{kind}"(c[{i}])' for i in range(self.c.elements))
        read = ", ".join(f'"r"({x}[{i}])' for x, n in zip("xy", words, strict=True) for i in range(n))
        text = (
            f"mma.sync.aligned.{self.size}.row.col.{self.types} {results}, {', '.join(operands)}, {results};"
        )
        return "\n".join(
            (
                "#ifdef __CUDACC__",
                f"static inline {_vector(self.accumulator, self.c.elements)} {self.name}({', '.join(taken)})",
                "{",
                f"    uint32_t x[{words[0]}], y[{words[1]}];",
                "    memcpy(x, &a, sizeof x);",
                "    memcpy(y, &b, sizeof y);",
                f'    asm volatile("{text}"',
                f"                 : {written}",
                f"                 : {read});",
                "    return c;",
                "}",
                "#endif",
            )
        )


#: A lane's elements of c, in all rows of the table: pairs of neighbours in a row, 8 rows apart.
_SUMS = Layout("l2 l3 l4 e1", "e0 l0 l1")
_A16, _B16 = Layout("l2 l3 l4 e1", "e0 l0 l1 e2"), Layout("e0 l0 l1 e1", "l2 l3 l4")
_A32, _B32 = Layout("l2 l3 l4 e0", "l0 l1 e1"), Layout("l0 l1 e0", "l2 l3 l4")
_A8, _B8 = Layout("l2 l3 l4 e2", "e0 e1 l0 l1 e3"), Layout("e0 e1 l0 l1 e2", "l2 l3 l4")
#: From sm_80 on. Of an f32 operand tf32 has the sign, the exponent and the upper 10 bits of the fraction.
INSTRUCTIONS: dict[str, Instruction] = {
    row.name: row
    for row in (
        Instruction((16, 8, 16), dtypes.f16, dtypes.f32, "f32.f16.f16.f32", _A16, _B16, _SUMS),
        Instruction((16, 8, 16), dtypes.bf16, dtypes.f32, "f32.bf16.bf16.f32", _A16, _B16, _SUMS),
        Instruction((16, 8, 8), dtypes.f32, dtypes.f32, "f32.tf32.tf32.f32", _A32, _B32, _SUMS),
        Instruction((16, 8, 32), dtypes.i8, dtypes.i32, "s32.s8.s8.s32", _A8, _B8, _SUMS),
    )
}


def _vector(dtype: DType, lanes: int) -> str:
    return f"{dtype.name}x{lanes}"


def typedef(dtype: DType, lanes: int) -> str:
    """A vector as C++ that needs no header: elements by number, made of all of them."""
    name, element = _vector(dtype, lanes), ELEMENT[dtype]
    numbers = range(lanes)
    given = ", ".join(f"{element} x{i}" for i in numbers)
    return "\n".join(
        (
            f"struct {name} {{",
            f"    {element} at[{lanes}];",
            f"    __device__ {name}({given}) : at{{{', '.join(f'x{i}' for i in numbers)}}} {{}}",
            f"    __device__ {element} &operator[] (int lane) {{ return at[lane]; }}",
            "};",
        )
    )


def helper(name: str) -> tuple[str, str]:
    """The function of an instruction, by its name: (name, text)."""
    return name, INSTRUCTIONS[name].device_text()
