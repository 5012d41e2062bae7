"""The table of weeks says what the packages are."""

import re
import runpy
from pathlib import Path

COURSES = Path(__file__).parents[1] / "courses"
MODULES = runpy.run_path(str(COURSES / "modules.py"))
README = (COURSES / "README.md").read_text()


def test_every_module_says_its_week() -> None:
    assert MODULES["without_week"]() == []


def test_the_table_of_modules_is_current() -> None:
    assert MODULES["table"]() in README, "run: python courses/modules.py"


def test_what_to_install_follows_the_weeks() -> None:
    new = {
        package: int(week)
        for week, packages in re.findall(
            r"^\| (\d+) \|.*\|([^|]*)\|$", README.partition("## Modules")[0], re.MULTILINE
        )
        for package in re.findall(r"`(uop[-a-z]*)`", packages)
    }
    every = {p.parent.name for p in COURSES.parent.glob("packages/*/pyproject.toml")}
    assert new.keys() == every
    for first, arguments in re.findall(
        r"^\| (\d+)[-0-9]* \| `pip install ([^`]*)` \|$", README, re.MULTILINE
    ):
        installed = every if "*" in arguments else set(re.findall(r"packages/([-a-z]+)", arguments))
        assert installed == {package for package, week in new.items() if week <= int(first)}
