"""Where every node that is alive stands, once, held weakly;
what a node holds; the slots of BUFFERs. Week 1.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from .dtype import DType
from .ops import AddrSpace, Ops

if TYPE_CHECKING:
    from .uop import UOp

Key: TypeAlias = "tuple[Ops, tuple[UOp, ...], Any]"
#: By a name of its own: an attribute of an Enum takes ten times as long to find, and each new node asks.
_BUFFER = Ops.BUFFER


class Fields:
    """What a node holds. It is filled as Fields,
    and when it is whole becomes a UOp, which cannot be written to.

    That takes a fifth of the time of object.__setattr__ for each slot.
    """

    __slots__ = ("__weakref__", "_digest", "addrspace", "arg", "dtype", "memo", "op", "shape", "src")

    op: Ops
    src: tuple[UOp, ...]
    arg: Any
    dtype: DType
    shape: tuple[int | UOp, ...]
    addrspace: AddrSpace
    memo: dict[str, Any]
    _digest: bytes  # none yet: b""


class _Ref(weakref.ref["UOp"]):
    """A weak reference that knows under which key the table has it."""

    __slots__ = ("key",)
    key: Key


#: Every node that is alive. A key holds the sources, as its node does, and leaves when the node dies.
alive: dict[Key, _Ref] = {}
#: Held where an entry is replaced or leaves, and by the slots.
#: A node may die, and so come here again, while its own thread holds it.
_lock = threading.RLock()


def enter(key: Key, node: UOp) -> UOp:
    """Put a new node into the table, or find the one that another thread has put there since."""
    if node.op is _BUFFER:
        slots.keep(node.arg.slot)
    ref = _Ref(node, _forget)
    ref.key = key
    # setdefault is one step to all threads, and the lock would take a tenth of the time of a new node
    if alive.setdefault(key, ref) is not ref:
        with _lock:
            held = alive.setdefault(key, ref)
            if held is not ref:
                known = held()
                if known is not None:
                    return known
                alive[key] = ref
    return node


def _forget(ref: Any) -> None:
    with _lock:
        key = ref.key
        if alive.get(key) is ref:
            del alive[key]


class Slots:
    """The slots of BUFFERs. One that any node ever had, one read from a text too, is never handed out."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> int:
        with _lock:
            slot = self._next
            self._next = slot + 1
        return slot

    def keep(self, slot: int) -> None:
        with _lock:
            self._next = max(self._next, slot + 1)


slots = Slots()
