"""Plant each bug of planted.toml and planted_c.toml in a copy of its package,
and show that the suites notice it.

The tests that are likely to fail run first, then all that decide for the package, up to the first failure. A
bug that makes them take many times as long is noticed too, and counted apart.
The exit code is 1 where a bug survives or its line is no longer there.
"""

from __future__ import annotations

import argparse
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
FILES = ("planted.toml", "planted_c.toml")
PACKAGES = ("uop-ir", "uop-rewrite", "uop-codegen-c")
_LOW = ("uop-ir/tests", "uop-rewrite/tests")
#: The suites that must notice a bug in a package.
SUITES = {"uop-ir": _LOW, "uop-rewrite": _LOW, "uop-codegen-c": ("uop-codegen-c/tests",)}
#: How many times as long as without a bug a run may take, of which several share the machine:
#: a bug that makes a suite run for ever is noticed.
LIMIT = 6
NO_TESTS = 5  # pytest's exit code where it found none: those of z3, without z3


@dataclass(frozen=True)
class Bug:
    """A text in a file, what stands there in its place, and the tests to run first."""

    file: str
    before: str
    after: str
    tests: str

    @property
    def package(self) -> str:
        return self.file.partition("/")[0].replace("_", "-")

    def path(self, root: Path) -> Path:
        return root / "packages" / self.package / "src" / self.file


def bugs() -> list[Bug]:
    tables = [tomllib.loads((ROOT / "tests" / file).read_text()) for file in FILES]
    return [Bug(**row) for table in tables for row in table["bug"]]


def misplaced(bug: Bug) -> str | None:
    """What is wrong with the place of a bug, if anything: what does not even start would count as noticed."""
    path = bug.path(ROOT)
    text = path.read_text() if path.is_file() else ""
    what = f"{bug.file}: {bug.before.strip()!r}"
    if (count := text.count(bug.before)) != 1:
        return f"{what} stands there {count} times"
    folder, _, test = bug.tests.partition("::")
    tests = ROOT / "packages" / folder
    if not tests.exists() or (test and f"def {test}(" not in tests.read_text()):
        return f"{what}: there is no {bug.tests}"
    try:
        compile(text.replace(bug.before, bug.after), bug.file, "exec")
    except SyntaxError as error:
        return f"{what} becomes no Python: {error}"
    return None


def copy(root: Path, to: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns(".hypothesis")  # bytecode is copied: it saves half of a short run
        shutil.copytree(root / "packages" / package, to / "packages" / package, ignore=ignored)
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(root / file, to / file)


def passes(root: Path, tests: Sequence[str], seconds: float | None = None) -> bool:
    """Whether tests pass on the packages of this folder. Raises TimeoutExpired after so many seconds."""
    sources = [str(root / "packages" / package / "src") for package in PACKAGES]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sources),
        "PYTHONDONTWRITEBYTECODE": "",
        "UOP_CACHE": str(root / "cache"),  # what a bug leaves in a cache is gone with the copy
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q"]
    folders = [f"packages/{test}" for test in tests]
    run = subprocess.run(
        [*command, *folders], check=False, cwd=root, env=env, capture_output=True, timeout=seconds
    )
    return run.returncode in (0, NO_TESTS)


def fate(bug: Bug, root: Path, seconds: float) -> str:
    """What becomes of a bug in a copy of `root`, where no run may take longer."""
    with tempfile.TemporaryDirectory() as folder:
        planted = Path(folder)
        copy(root, planted)
        path = bug.path(planted)
        path.write_text(path.read_text().replace(bug.before, bug.after))
        try:
            alive = all(passes(planted, tests, seconds) for tests in ([bug.tests], SUITES[bug.package]))
        except subprocess.TimeoutExpired:
            return "too slow"
        return "SURVIVES" if alive else "killed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only bugs whose file or text has one of these"
    )
    parser.add_argument("--check", action="store_true", help="only: does each text stand once in its file?")
    given = parser.parse_args()
    chosen = [b for b in bugs() if not given.words or any(w in b.file or w in b.before for w in given.words)]
    if not chosen:
        parser.error(f"no bug has {' or '.join(given.words)} in its file or its text")
    wrong = [what for bug in chosen if (what := misplaced(bug))]
    if wrong or given.check:
        print("\n".join([*wrong, f"{len(chosen) - len(wrong)} of {len(chosen)} bugs have their place"]))
        return int(bool(wrong))

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        copy(ROOT, base)  # what is edited meanwhile changes nothing
        suites = list(dict.fromkeys(suite for bug in chosen for suite in SUITES[bug.package]))
        start = time.monotonic()
        if not passes(base, suites):
            print("the suites fail without a bug: pytest", *(f"packages/{suite}" for suite in suites))
            return 1
        seconds = LIMIT * (time.monotonic() - start)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            fates = list(pool.map(lambda bug: report(bug, base, seconds), chosen))
    killed, slow, alive = (fates.count(what) for what in ("killed", "too slow", "SURVIVES"))
    print(f"{len(chosen)} bugs, {killed} killed, {slow} too slow, {alive} survive")
    return int(alive > 0)


def report(bug: Bug, root: Path, seconds: float) -> str:
    """Print what becomes of a bug, and give it back."""
    start = time.monotonic()
    what = fate(bug, root, seconds)
    line = f"{what:8} {time.monotonic() - start:6.1f} s  {bug.file}"
    print(f"{line}: {(bug.after.strip() or 'nothing').splitlines()[0]}", flush=True)
    return what


if __name__ == "__main__":
    sys.exit(main())
