"""How long 1 MB of `.uir` takes to be read, and written again, for texts of several kinds. Week 1."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

from uop_ir import format_uir, parse_uir

MEGABYTE = 1_000_000


def chain() -> Iterator[str]:
    """Sums and views, each over the line before."""
    yield "%0 = buffer 4 : dtype=f32 slot=0\n"
    n = 1
    while True:
        yield f"%{n} = add %{n - 1}, %0\n%{n + 1} = reshape %{n}, (2, 2)\n%{n + 2} = reshape %{n + 1}, (4,)\n"
        n += 3


def constants(dtype: str) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        n = 0
        while True:
            yield f"%{n} = const {n % 9999}.5 : dtype={dtype}\n"
            n += 1

    return lines


def loops() -> Iterator[str]:
    """Accesses in a loop."""
    yield "%0 = param 4 : dtype=f32 slot=0\n%1 = const 4 : dtype=index\n%2 = range %1 : id=0 axis=loop\n"
    n = 3
    while True:
        yield f"%{n} = index %0, %2\n%{n + 1} = load %{n}\n%{n + 2} = store %{n}, %{n + 1}\n%{n + 3} = const {n} : dtype=i32\n"
        n += 4


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "chain": chain,
    "constants f16": constants("f16"),
    "constants f32": constants("f32"),
    "loops": loops,
}


def text(lines: Callable[[], Iterator[str]]) -> str:
    """The first megabyte."""
    parts, size = [], 0
    for line in lines():
        parts.append(line)
        size += len(line)
        if size >= MEGABYTE:
            return "".join(parts)
    raise AssertionError("the lines end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"seconds of CPU for 1 MB, medians of {args.rounds} rounds")
    print(f"{'text':16}{'nodes':>8}{'read':>8}{'write':>8}")
    for name, lines in KINDS.items():
        source = text(lines)
        read, write, nodes = [], [], 0
        for _ in range(args.rounds):
            start = time.thread_time()
            parsed = parse_uir(source)
            middle = time.thread_time()
            format_uir(parsed.nodes)
            end = time.thread_time()
            read.append(middle - start)
            write.append(end - middle)
            nodes = len(parsed.nodes)
            del parsed
        print(f"{name:16}{nodes:8}{statistics.median(read):8.2f}{statistics.median(write):8.2f}", flush=True)


if __name__ == "__main__":
    main()
