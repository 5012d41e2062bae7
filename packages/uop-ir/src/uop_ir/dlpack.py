"""DLPack: the dtype that a capsule says its tensor has. Week 1."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

#: Where a tensor begins in what a capsule of this name points to, and the code of its dtype in the tensor.
CAPSULES = {b"dltensor": 0, b"dltensor_versioned": 32}
CODE = 20


def recode_dlpack(capsule: Any, codes: Mapping[int, int]) -> bool:
    """Whether the dtype of a capsule has one of the codes (DLDataTypeCode in dlpack.h) that are keys here; it
    gets the code beside it, of the same width.

    For dtypes of which NumPy does not know the code, as bf16.
    Raises KeyError for a capsule that has been consumed.
    """
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    called = name(capsule)
    code = ctypes.c_uint8.from_address(pointer(capsule, called) + CAPSULES[called] + CODE)
    found = code.value in codes
    code.value = codes.get(code.value, code.value)
    return found
