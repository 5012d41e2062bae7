"""Plant each bug of planted.toml in a copy of uop-ir and uop-rewrite, and show that their suites notice it.

python tests/planted.py [WORD ...]      only bugs whose file or text has one of the words
python tests/planted.py --check         only: does each text stand once in its file?

The suite that is likely to fail runs first, then all others, up to the first failure. The exit code is 1 where a bug
survives or its line is no longer there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("uop-ir", "uop-rewrite")
#: Seconds that a run may take: a bug that makes a suite run for ever is noticed.
LIMIT = 900
NO_TESTS = 5  # pytest's exit code where it found none: those of z3, without z3
SUITES = tuple(f"{package}/tests" for package in PACKAGES)


@dataclass(frozen=True)
class Bug:
    """A text in a file, what stands there in its place, and the tests to run first."""

    file: str
    before: str
    after: str
    tests: str

    def path(self, root: Path) -> Path:
        package = self.file.partition("/")[0].replace("_", "-")
        return root / "packages" / package / "src" / self.file


def bugs() -> list[Bug]:
    rows = tomllib.loads((ROOT / "tests" / "planted.toml").read_text())["bug"]
    return [Bug(**row) for row in rows]


def misplaced(bug: Bug) -> str | None:
    """What is wrong with the place of a bug, if anything."""
    path = bug.path(ROOT)
    count = path.read_text().count(bug.before) if path.is_file() else 0
    return None if count == 1 else f"{bug.file}: stands there {count} times: {bug.before.strip()!r}"


def copy(root: Path, to: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        shutil.copytree(root / "packages" / package, to / "packages" / package, ignore=ignored)
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(root / file, to / file)


def passes(root: Path, tests: Sequence[str]) -> bool:
    """Whether tests pass on the packages of this folder, and in time."""
    sources = [str(root / "packages" / package / "src") for package in PACKAGES]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    folders = [f"packages/{test}" for test in tests]
    try:
        run = subprocess.run(
            [*command, *folders], check=False, cwd=root, env=env, capture_output=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode in (0, NO_TESTS)


def survives(bug: Bug, root: Path) -> bool:
    """Whether all tests pass with the bug in a copy of `root`."""
    with tempfile.TemporaryDirectory() as folder:
        planted = Path(folder)
        copy(root, planted)
        path = bug.path(planted)
        path.write_text(path.read_text().replace(bug.before, bug.after))
        return passes(planted, [bug.tests]) and passes(planted, SUITES)


def main(arguments: Sequence[str]) -> int:
    words = [a for a in arguments if not a.startswith("-")]
    chosen = [b for b in bugs() if not words or any(w in b.file or w in b.before for w in words)]
    wrong = [what for bug in chosen if (what := misplaced(bug))]
    if wrong or "--check" in arguments:
        print("\n".join([*wrong, f"{len(chosen) - len(wrong)} of {len(chosen)} bugs have their place"]))
        return int(bool(wrong))

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        copy(ROOT, base)  # what is edited meanwhile changes nothing
        if not passes(base, SUITES):
            print("the suites fail without a bug: pytest packages/uop-ir/tests packages/uop-rewrite/tests")
            return 1
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            alive = sum(pool.map(lambda bug: report(bug, base), chosen))
    print(f"{len(chosen)} bugs, {len(chosen) - alive} killed, {alive} survive")
    return int(alive > 0)


def report(bug: Bug, root: Path) -> bool:
    """Print what became of a bug; true where it survives."""
    start = time.monotonic()
    alive = survives(bug, root)
    line = f"{'SURVIVES' if alive else 'killed  '} {time.monotonic() - start:6.1f} s  {bug.file}"
    print(f"{line}: {bug.after.strip().splitlines()[0]}", flush=True)
    return alive


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
