"""Settings of uop-nn: where data sets are found and kept. Week 5."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings

__all__ = ["NnSettings", "settings"]


@dataclass
class NnSettings:
    """UOP_DATA: a folder of data sets, looked in first. UOP_CACHE: the cache folder.

    UOP_CACHE empty is `uop` in XDG_CACHE_HOME, or `~/.cache/uop`.
    """

    uop_data: str = ""
    uop_cache: str = ""
    xdg_cache_home: str = ""


settings = read_settings(NnSettings)
