"""Grading passes a package that is ours, and fails one with a planted bug, by name."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUG = """

def graph_rewrite(root, *args, **kwargs):
    return root
"""


def grade(tmp_path: Path, bug: str) -> subprocess.CompletedProcess[str]:
    package = tmp_path / "uop-rewrite"
    shutil.copytree(ROOT / "packages" / "uop-rewrite", package, ignore=shutil.ignore_patterns("tests"))
    with (package / "src" / "uop_rewrite" / "__init__.py").open("a") as init:
        init.write(bug)
    command = [sys.executable, "-m", "nox", "--envdir", str(tmp_path / "nox"), "-s", "grade"]
    return subprocess.run(
        [*command, "--", f"uop-rewrite={package}"], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_our_own_package_passes(tmp_path: Path) -> None:
    result = grade(tmp_path, bug="")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"uop-rewrite from {tmp_path}" in result.stderr


@pytest.mark.slow
def test_a_planted_bug_fails(tmp_path: Path) -> None:
    result = grade(tmp_path, BUG)
    assert result.returncode != 0
    assert "tests failed in uop-rewrite" in result.stderr
