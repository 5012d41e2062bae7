"""The dtype of a DLPack capsule, as NumPy reads it."""

from typing import Any

import numpy as np
import pytest

from uop_ir import recode_dlpack

SIGNED, UNSIGNED, FLOAT = 0, 1, 2


class Producer:
    """An array whose capsule has been given another dtype."""

    def __init__(self, array: np.ndarray[Any, Any], codes: dict[int, int]) -> None:
        self.array, self.codes = array, codes
        self.found = False

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        self.found = recode_dlpack(capsule, self.codes)
        return capsule


def test_a_code_is_replaced_in_capsules_of_both_versions() -> None:
    data = np.array([1, 0x3C00, 0xFFFF], np.uint16)
    for code, dtype in ((SIGNED, np.int16), (FLOAT, np.float16)):
        producer = Producer(data.copy(), {UNSIGNED: code})
        array = np.from_dlpack(producer)
        assert producer.found
        assert array.dtype == dtype
        assert array.tobytes() == data.tobytes()


def test_other_codes_stay() -> None:
    producer = Producer(np.zeros(3, np.float32), {UNSIGNED: SIGNED})
    assert np.from_dlpack(producer).dtype == np.float32
    assert not producer.found


def test_an_empty_tensor() -> None:
    assert np.from_dlpack(Producer(np.zeros((0, 3), np.uint16), {UNSIGNED: SIGNED})).dtype == np.int16


def test_a_capsule_is_read_once() -> None:
    capsules = []

    class Keeping(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            capsules.append(super().__dlpack__(**options))
            return capsules[0]

    np.from_dlpack(Keeping(np.zeros(3, np.uint16), {}))
    with pytest.raises(KeyError):
        recode_dlpack(capsules[0], {})
