"""What the namespace says of itself: devices, dtypes, capabilities. Week 5."""

from __future__ import annotations

from uop_ir import DType, backend_names, get_backend

from .data_types import DTYPES, isdtype


class Info:
    """What `__array_namespace_info__` returns. `device` is a name; dtypes are the same on every device."""

    def capabilities(self) -> dict[str, bool | int]:
        """Indices of bool, and shapes that depend on elements, are there, outside of jit."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 31}

    def default_device(self) -> str:
        """The device of what is made without `device=`."""
        return get_backend().name

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of positions."""
        names = {"real floating": "float32", "integral": "int64", "indexing": "int64"}
        return {kind: DTYPES[name] for kind, name in names.items()}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes of a kind, by name. Raises KindError for a kind that the standard does not have."""
        return {name: d for name, d in DTYPES.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> list[str]:
        """The devices that are installed, the default one first."""
        default = self.default_device()
        return [default, *(name for name in backend_names() if name != default)]


def __array_namespace_info__() -> Info:  # the standard's name
    """What the namespace has."""
    return Info()
