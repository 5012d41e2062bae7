"""Settings of the emulator: in which order the threads of a GPU run,
and whether they are checked. Weeks 7 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings


@dataclass
class EmuSettings:
    """EMU_ORDER: the order of threads and blocks, one of `ascending`,
    `descending`, `random`. EMU_SEED: of `random`.

    EMU_CHECK=1: kernels are checked, and what they do wrong is an error. 2: it is kept, and they go on.
    """

    emu_order: str = "ascending"
    emu_seed: int = 1
    emu_check: int = 0


settings = read_settings(EmuSettings)
