"""What docs/ says is so: its examples print what it shows, and its tables are those of the code."""

import ast
import importlib
import re
import runpy
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from uop_ir import Ops, UopError
from uop_ir.settings import in_force

ROOT = Path(__file__).parents[1]
DOCS = runpy.run_path(str(ROOT / "docs" / "examples.py"))
PAGES = DOCS["pages"]()
PACKAGES = [path.name for path in ROOT.glob("packages/*/src/*") if (path / "__init__.py").is_file()]
LINK = re.compile(r"\]\(([^)#:]+)[^):]*\)")
SETTING = re.compile(r"^\| `([A-Z_]+)` \| (?:`([^`]*)`)?", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_is_current(page: Path) -> None:
    if page.name == "gpu.md" and shutil.which("g++") is None:
        pytest.skip("no g++ for the emulator (apt install g++)")
    assert page.read_text() == DOCS["current"](page), "run: python docs/examples.py"


def test_the_reference_has_every_op_once_and_no_cell_is_missing() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|\n").split(" | ")]
        for line in (ROOT / "docs" / "ops.md").read_text().partition("## Index maps")[0].splitlines()
        if line.startswith("| `")
    ]
    assert sorted(row[0].strip("`") for row in rows) == sorted(op.value for op in Ops)
    assert {len(row) for row in rows} == {6}
    assert all(cell for row in rows for cell in row)


def test_every_page_is_in_the_index() -> None:
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {page.name for page in PAGES} - {"README.md"} <= linked


def test_links_lead_somewhere() -> None:
    texts = [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("courses/*.md"), *ROOT.glob("packages/*/README.md")]
    dead = [
        (str(page.relative_to(ROOT)), link)
        for page in texts
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    assert dead == []


def test_the_table_of_settings_has_every_setting_and_its_default() -> None:
    for package in PACKAGES:
        importlib.import_module(package)
    ours = {f.name.upper(): str(f.default) for settings in in_force for f in fields(settings)}
    table = dict(SETTING.findall((ROOT / "docs" / "settings.md").read_text()))
    assert ours.items() <= table.items()
    assert table.keys() - ours.keys() == _read_elsewhere() - ours.keys()


def _read_elsewhere() -> set[str]:
    """The environment variables that our source names: what `os.environ` is asked for or given."""
    names = set()
    for file in ROOT.glob("packages/*/src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant | ast.Compare | ast.Call) and "environ" in ast.unparse(node):
                names |= set(re.findall(r"'([A-Z][A-Z_]+)'", ast.unparse(node)))
    return names


def test_the_table_of_errors_has_every_error_that_a_user_can_name() -> None:
    table = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (\d) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE
    )
    packages = [importlib.import_module(name) for name in PACKAGES]
    public = {
        (name, package.__name__, str(value.exit_code))
        for package in packages
        for name, value in vars(package).items()
        if name in package.__all__ and isinstance(value, type) and issubclass(value, UopError)
    }
    assert set(table) == {row for row in public if row[0] != "UopError"}
