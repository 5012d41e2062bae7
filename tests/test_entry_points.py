"""What the packages register is there: each entry point of ours loads."""

import ast
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from uop_rewrite import Pass

ENTRY_POINTS = [ep for d in distributions() if d.name.startswith("uop") for ep in d.entry_points]


def test_each_group_is_used() -> None:
    ours = ("backends", "commands", "doctor", "emit", "export", "models", "passes")
    assert {"console_scripts", *(f"uop.{name}" for name in ours)} == {ep.group for ep in ENTRY_POINTS}


def test_grading_lets_a_package_register_in_each_group() -> None:
    script = ast.parse(Path(__file__).with_name("check_origin.py").read_text())
    (groups,) = [
        node.value
        for node in script.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY_POINTS"
    ]
    assert ast.literal_eval(groups) == {ep.group for ep in ENTRY_POINTS}


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
