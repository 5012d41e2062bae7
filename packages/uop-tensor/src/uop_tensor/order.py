"""The order in which kernels run: what lies in memory between them should be little. Week 5."""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush

from uop_ir import UOp

from .memory import nbytes
from .schedule import Graph


def run_order(graph: Graph, homes: Container[UOp]) -> list[int]:
    """The kernels in an order that keeps all edges. `homes` are the values that do not lie in scratch memory.

    A kernel that leaves no more in scratch memory than it found runs as soon as it can: such are the last
    readers of a value. Any other waits until its first user is next,
    so that what can be computed late, or is computed again, does not lie about.
    """
    late = _latest(graph)
    place = {k: i for i, k in enumerate(late)}
    readers: dict[UOp, set[int]] = {}
    for k, kernel in graph.kernels.items():
        for value in kernel.reads:
            if value in graph.writer and value not in homes:
                readers.setdefault(value, set()).add(k)
    grows = {
        k: sum(nbytes(v) for v in kernel.values if v not in homes) for k, kernel in graph.kernels.items()
    }
    waiting = {k: len(direct) for k, direct in graph.direct.items()}
    users: dict[int, list[int]] = {k: [] for k in graph.kernels}
    for k, direct in graph.direct.items():
        for d in direct:
            users[d].append(k)
    shrinking: list[int] = []  # places of kernels that may run and do not grow scratch memory
    order: dict[int, None] = {}

    def consider(k: int) -> None:
        if waiting[k] == 0 and grows[k] <= 0:
            heappush(shrinking, place[k])

    def run(k: int) -> None:
        order[k] = None
        for value in graph.kernels[k].reads:
            left = readers.get(value, set())
            left.discard(k)
            if len(left) == 1:
                (last,) = left
                grows[last] -= nbytes(value)
                consider(last)
        for user in users[k]:
            waiting[user] -= 1
            consider(user)

    for k, kernel in graph.kernels.items():
        grows[k] -= sum(nbytes(v) for v in kernel.reads if len(readers.get(v, ())) == 1)
        consider(k)
    for k in late:
        while shrinking:
            first = late[heappop(shrinking)]
            if first not in order:
                run(first)
        if k not in order:
            run(k)
    assert len(order) == len(graph.kernels), "a cycle of kernels"
    return list(order)


def _latest(graph: Graph) -> list[int]:
    """Each kernel as late as its first user allows.
    Of what a kernel needs, that with the longest way behind it is first.
    """
    depth: dict[int, int] = {}
    # what runs before a kernel has fewer before it
    for k in sorted(graph.kernels, key=lambda k: graph.before[k].bit_count()):
        depth[k] = 1 + max((depth[d] for d in graph.direct[k]), default=0)
    needed = set[int]().union(*graph.direct.values())
    order: dict[int, None] = {}
    for root in (k for k in graph.kernels if k not in needed):
        stack = [root]
        while stack:
            first = [d for d in graph.direct[stack[-1]] if d not in order]
            if stack[-1] in order or not first:
                order[stack.pop()] = None
            else:
                stack += sorted(first, key=lambda d: (depth[d], -d))
    return list(order)
