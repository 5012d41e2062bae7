"""Settings of the C backend. Week 2."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings


@dataclass
class CSettings:
    """OPT=0: no optimizer. STRICT=1: no freedoms of arithmetic.
    CC: the compiler. UOP_CACHE: the cache folder.

    BEAM=n: a kernel gets a schedule by timing, n of them being looked around at a time, for about
    BEAM_SECONDS, unless so wide and so long a search for it was made before.

    CC may carry arguments (`ccache gcc`); empty, it is the first that works of those in `compiler`. UOP_CACHE
    empty is `uop` in XDG_CACHE_HOME, or `~/.cache/uop`.
    """

    opt: int = 1
    strict: int = 0
    cc: str = ""
    uop_cache: str = ""
    beam: int = 0
    beam_seconds: int = 30


settings = read_settings(CSettings)
