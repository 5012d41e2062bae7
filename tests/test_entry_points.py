"""What the packages register is there: each entry point of ours loads."""

from importlib.metadata import EntryPoint, distributions

import pytest

from uop_rewrite import Pass

ENTRY_POINTS = [ep for d in distributions() if d.name.startswith("uop") for ep in d.entry_points]


def test_each_group_is_used() -> None:
    ours = ("backends", "commands", "doctor", "emit", "export", "models", "passes")
    assert {"console_scripts", *(f"uop.{name}" for name in ours)} == {ep.group for ep in ENTRY_POINTS}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda ep: f"{ep.group}-{ep.name}")
def test_entry_point_loads(entry_point: EntryPoint) -> None:
    assert callable(entry_point.load())


@pytest.mark.parametrize(
    "entry_point", [ep for ep in ENTRY_POINTS if ep.group == "uop.passes"], ids=lambda ep: ep.name
)
def test_a_pass_is_offered_by_its_name_with_default_options(entry_point: EntryPoint) -> None:
    made = entry_point.load()()
    if isinstance(made, tuple):
        assert all(isinstance(step, Pass) for step in made)
    else:
        assert isinstance(made, Pass)
        assert made.name == entry_point.name
