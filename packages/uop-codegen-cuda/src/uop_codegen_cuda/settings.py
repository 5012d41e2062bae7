"""Settings of the emulator: in which order the threads of a GPU run. Week 7."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings


@dataclass
class EmuSettings:
    """EMU_ORDER: the order of threads and blocks, one of `ascending`, `descending`, `random`. EMU_SEED: of `random`."""

    emu_order: str = "ascending"
    emu_seed: int = 1


settings = read_settings(EmuSettings)
