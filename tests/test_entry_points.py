"""What the packages register is there: each entry point of ours loads."""

from importlib.metadata import EntryPoint, distributions

import pytest

ENTRY_POINTS = [ep for d in distributions() if d.name.startswith("uop") for ep in d.entry_points]


def test_each_group_is_used() -> None:
    assert {"console_scripts", "uop.backends", "uop.commands", "uop.doctor", "uop.emit"} == {
        ep.group for ep in ENTRY_POINTS
    }


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda ep: f"{ep.group}-{ep.name}")
def test_entry_point_loads(entry_point: EntryPoint) -> None:
    assert callable(entry_point.load())
