"""Ctrl-C as a wish that a loop can ask about, instead of an exception at any line. Week 9."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupt"]


class Interrupt:
    """Within a with block, the first Ctrl-C sets `asked`; a second one raises KeyboardInterrupt at once, as
    always.

    Outside of the main thread, which alone gets signals, it changes nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
