#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.11.12"]
# ///
"""Every check of this repository. `nox` runs what CI runs,
`nox -l` lists all, `nox -t nightly` runs the long ones.

nox -s "tests(uop-ir)"                  one package, with only what it declares
nox -s "weeks(week5)"                   what a student has in week 5
nox -s grade -- uop-rewrite=PATH        a student's package in place of ours
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
DIST = ROOT / "dist"

#: Suites run on all CPUs; one that has nothing left takes tests of another.
PARALLEL = ("-n", "auto", "--dist", "worksteal")
NO_TESTS = 5  # pytest's exit code where it found none
#: What pyproject.toml leaves out, and what need not be repeated for each week.
NOT_NETS = "not gpu and not slow and not torch and not net"

#: The packages, lower layers first, and the week in which a student first installs each.
FIRST_WEEK = {
    "uop-ir": 1,
    "uop-rewrite": 1,
    "uop-codegen-c": 2,
    "uop-tensor": 5,
    "uop-nn": 5,
    "uop-codegen-cuda": 7,
    "uopc": 7,
}
PACKAGES = tuple(FIRST_WEEK)
WEEKS = range(1, 15)
#: The weeks that install something new. What is installed
#: in another week is what was installed the week before.
WEEKS_OF_CHANGE = sorted(set(FIRST_WEEK.values()))

nox.needs_version = ">=2025.11.12"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True

os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # as pip does: trust the machine's certificates
# Suites start hundreds of processes. With this set, each would compile every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def project(package: str) -> dict[str, Any]:
    """The [project] table of one of our packages."""
    table = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
    assert isinstance(table, dict)
    return table


def closure(package: str) -> list[str]:
    """`package` and those of our packages that it declares, directly or not, lower layers first."""
    declared = project(package)["dependencies"]
    below = {p for q in PACKAGES if any(r.startswith(f"{q}~=") for r in declared) for p in closure(q)}
    return [p for p in PACKAGES if p in below or p == package]


def installed_in(week: int) -> list[str]:
    """Our packages that a student has in a week, lower layers first."""
    return [p for p, first in FIRST_WEEK.items() if first <= week]


nox.options.sessions = [
    "lint",
    "types",
    "layers",
    "build",
    # a package that is taught with all that it declares, and nothing else, is tested in its week
    *(f"tests({p})" for p in PACKAGES if closure(p) != installed_in(FIRST_WEEK[p])),
    *(f"weeks(new in week{week})" for week in WEEKS_OF_CHANGE),
    "stack",  # the last, so that a run closes with pytest's summary
]


def group(name: str) -> list[str]:
    """A dependency group (PEP 735) of the root pyproject.toml."""
    return list(nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), name))


def install(session: nox.Session, packages: list[str] | tuple[str, ...], *extra: str) -> None:
    """Install our packages from their folders, every one of them, so that none can come from an index."""
    session.install(*(arg for p in packages for arg in ("--editable", f"./packages/{p}")), *extra)


def install_wheels(session: nox.Session, packages: list[str]) -> None:
    """Install the wheels of our packages that are in dist/, and nothing else of ours."""
    wheels = [str(next(DIST.glob(f"{p.replace('-', '_')}-*.whl"))) for p in packages]
    session.install(*wheels, *group("test"))
    session.run("python", "tests/only_installed.py", *packages)


@nox.session(tags=["check"])
def lint(session: nox.Session) -> None:
    """Check formatting and lint."""
    session.install(*group("lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session(tags=["check"])
def types(session: nox.Session) -> None:
    """Check types, one package (its source and its tests) at a time."""
    install(session, PACKAGES, *group("types"), *group("test"))
    for package in PACKAGES:
        session.run("mypy", f"packages/{package}")
    session.run("mypy", "tests", "courses", "docs", "benchmarks", "conftest.py", "noxfile.py")


@nox.session(tags=["check"])
def layers(session: nox.Session) -> None:
    """Check that a package imports only those below it,
    only their public names, and declares what it imports.
    """
    install(session, PACKAGES, *group("layers"), *group("test"))
    session.run("lint-imports")
    for package in PACKAGES:
        with session.chdir(f"packages/{package}"):
            session.run("deptry", "src")
    session.run("pytest", "tests/test_private_names.py")


@nox.session(tags=["check"])
def build(session: nox.Session) -> None:
    """Build into dist/ every sdist, and from it the wheel; check both."""
    session.install(*group("build"))
    shutil.rmtree(DIST, ignore_errors=True)
    for package in PACKAGES:
        folder = f"packages/{package}"
        session.run("python", "-m", "build", "--installer=uv", f"--outdir={DIST}", folder, silent=True)
    files = sorted(str(p) for p in DIST.iterdir())
    wheels = [f for f in files if f.endswith(".whl")]
    session.run("twine", "check", "--strict", *files)
    session.run("check-wheel-contents", *wheels)
    session.run("python", "tests/check_wheels.py", *wheels)


@nox.session(tags=["test"], reuse_venv=False, requires=["build"])
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests(session: nox.Session, package: str) -> None:
    """Test the wheel of one package with exactly the dependencies it declares.

    A plain `nox` leaves out the packages for which this
    is what `weeks` does in the week in which they are taught.
    """
    install_wheels(session, closure(package))
    session.run("pytest", *PARALLEL, f"packages/{package}/tests", *session.posargs)


@nox.session(tags=["test"], reuse_venv=False, requires=["build"])
@nox.parametrize(
    "week, new",
    [
        *(
            nox.param(week, False, id=f"week{week}", tags=["nightly"] if week == WEEKS[-1] else [])
            for week in WEEKS
        ),
        *(nox.param(week, True, id=f"new in week{week}") for week in WEEKS_OF_CHANGE),
    ],
)
def weeks(session: nox.Session, week: int, new: bool) -> None:
    """Test what a student has in week N: the wheels of the packages of weeks 1 to N,
    and nothing else of ours.

    A plain `nox` runs the suites of the packages that are new in a week (1, 2, 5 and 7). A package that
    declares all that is installed is tested in full, as `tests` does, and the others without the tests
    marked `net`.
    """
    have = installed_in(week)
    install_wheels(session, have)
    tested = [p for p in have if FIRST_WEEK[p] == week or not new]
    for whole in (True, False):
        suites = [f"packages/{p}/tests" for p in tested if (closure(p) == have) == whole]
        if suites:
            chosen = () if whole else ("-m", NOT_NETS)
            codes = [0, NO_TESTS] if session.posargs else [0]  # which may choose tests of some suites only
            session.run("pytest", *PARALLEL, *chosen, *suites, *session.posargs, success_codes=codes)


@nox.session(tags=["test"])
def stack(session: nox.Session) -> None:
    """Test all packages together, every pass verified: what no single one can test."""
    install(session, PACKAGES, *group("test"))
    session.run("pytest", *PARALLEL, "tests", *session.posargs, env={"CHECK": "1"})


@nox.session
def train(session: nox.Session) -> None:
    """Train the small GPT on the CPU (the main job): nox -s train -- OPTIONS."""
    install(session, PACKAGES)
    session.run("uopc", "train", "gpt", *session.posargs)


@nox.session(reuse_venv=False)
def grade(session: nox.Session) -> None:
    """Run our suites on a student's packages: nox -s grade -- uop-ir=PATH uop-rewrite=PATH.

    The suites that run are those of the packages given, of the packages that stand on them, and tests/. The
    session fails if one of them does, and says which. Results are written to grades/ as JUnit XML.
    """
    given = {name: Path(path).resolve() for name, _, path in (a.partition("=") for a in session.posargs)}
    if not given or not set(given) <= set(PACKAGES):
        session.error(f"give NAME=PATH, where NAME is one of {', '.join(PACKAGES)}")
    for name, path in given.items():
        if not (path / "pyproject.toml").is_file():
            session.error(f"{name}: no pyproject.toml in {path}")
    # Nothing but our suites decides: no plugin that a package brings, no module from the working directory.
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONSAFEPATH": "1"}
    failed: list[str] = []

    def suite(name: str, folder: str) -> None:
        try:
            # Modules inside a student's package have names of their own,
            # and kernels a text of their own: our tests of the inside do not apply.
            inside = [f"--ignore={folder}/internal"] if name in given or name == "tests" else []
            session.run("pytest", f"--junit-xml=grades/{name}.xml", *inside, folder, env=env)
        except CommandFailed:
            failed.append(name)

    shutil.rmtree(ROOT / "grades", ignore_errors=True)
    session.install(*group("test"))
    # one by one, so that an import from a package above fails as it does for the student
    for package in PACKAGES:
        session.install(str(given.get(package, f"./packages/{package}")))
        if package in given:
            session.run("python", "tests/check_origin.py", package, str(given[package]), env=env)
        if not given.keys().isdisjoint(closure(package)):
            suite(package, f"packages/{package}/tests")
    suite("tests", "tests")
    for name, path in given.items():
        session.run("python", "tests/check_origin.py", name, str(path), env=env)
    if failed:
        session.error(f"tests failed in {', '.join(failed)}")
    session.log(f"all passed with {', '.join(f'{name} from {path}' for name, path in given.items())}")


def each_suite(session: nox.Session, *options: str) -> None:
    """Run the suites one by one, in processes of their own:
    some choose the device. One may have no test to run.
    """
    for folder in (*(f"packages/{p}/tests" for p in PACKAGES), "tests"):
        session.run("pytest", *PARALLEL, *options, folder, *session.posargs, success_codes=[0, NO_TESTS])


@nox.session(tags=["nightly"], venv_backend="virtualenv")
def torch(session: nox.Session) -> None:
    """Compare with PyTorch: the tests marked `torch`."""
    install(session, PACKAGES, "torch==2.13.0", *group("test"))
    session.run("pytest", "-m", "torch", "tests", *session.posargs)


@nox.session(tags=["nightly"], venv_backend="virtualenv")
def bench(session: nox.Session) -> None:
    """Run every benchmark, beside tinygrad or PyTorch, and print what it measured: see benchmarks/README.md.

    What speed.py measured is also written to speed.json and speed.svg in the folder of the session.
    """
    install(session, PACKAGES, "tinygrad==0.14.0", "torch==2.13.0")
    folder = session.create_tmp()
    options = {"speed.py": (f"--json={folder}/speed.json", f"--plot={folder}/speed.svg")}
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        session.run("python", str(script), *options.get(script.name, ()))


@nox.session(tags=["nightly"])
def fuzz(session: nox.Session) -> None:
    """Run every property test on many more examples."""
    install(session, PACKAGES, *group("test"))
    each_suite(session, "--hypothesis-profile=nightly")


@nox.session(tags=["nightly"])
def proofs(session: nox.Session) -> None:
    """Prove the rules with z3: at 8 and at 32 bits,
    and test that its formulas say what the interpreter does.
    """
    rewrite = "./packages/uop-rewrite[verify]"
    session.install("--editable", "./packages/uop-ir", "--editable", rewrite, *group("test"))
    for bits in ("8", "32"):
        session.run("uopc", "prove", "--bits", bits, "--timeout", "10")
    tests = "packages/uop-rewrite/tests/internal"
    session.run("pytest", *PARALLEL, f"{tests}/test_smt.py", f"{tests}/test_proofs.py")


@nox.session(tags=["nightly"])
def planted(session: nox.Session) -> None:
    """Plant each bug of tests/planted*.toml, one by one, and show that the suites notice it."""
    folders = ("./packages/uop-ir", "./packages/uop-rewrite[verify]", "./packages/uop-codegen-c")
    session.install(*(arg for folder in folders for arg in ("--editable", folder)), *group("test"))
    session.run("python", "tests/planted.py", *session.posargs)


@nox.session(tags=["nightly"])
def sanitize(session: nox.Session) -> None:
    """Run kernels under AddressSanitizer and UBSan (gcc),
    each buffer between pages that may not be touched.
    """
    install(session, PACKAGES, *group("test"))
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    checks = "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
    checks += " -Wno-error=conversion"  # gcc warns of what its own checks make of a cast
    env = {
        "CC": f"gcc {checks}",
        "PYTHONPATH": str(ROOT / "tests"),
        "UOP_CACHE": session.create_tmp(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees no modules at its end
    }
    suites = [f"packages/uop-{name}/tests" for name in ("codegen-c", "tensor", "nn")]
    inside = [f"--ignore={suite}/internal" for suite in suites]
    for side in ("end", "start"):
        # In one process: workers would start without the library, which has to be the first.
        under = {**env, "GUARD": side, "LD_PRELOAD": library}
        session.run(
            "python",
            "-c",
            "import guard_pages, runpy; runpy.run_path('tests/small_steps.py', run_name='__main__')",
            env=under,
        )
        session.run(
            "pytest", "-p", "guard_pages", *suites, *inside, "tests/test_net.py", *session.posargs, env=under
        )


@nox.session(tags=["nightly"])
def cuda(session: nox.Session) -> None:
    """Test uop-codegen-cuda with its extra: machine code by NVRTC, the backend CUDA
    through a driver of the tests, and, where there is a GPU, on it.
    """
    extra = ("--editable", "./packages/uop-codegen-cuda[cuda]")
    install(session, PACKAGES, *extra, *group("test"))
    suite = "packages/uop-codegen-cuda/tests"
    session.run("pytest", *PARALLEL, suite, *session.posargs)
    session.run("pytest", "-m", "gpu", suite, *session.posargs)


@nox.session(tags=["nightly"])
def slow(session: nox.Session) -> None:
    """Run the tests that are too long for CI."""
    install(session, PACKAGES, *group("test"), "nox[uv]>=2025.11.12")
    each_suite(session, "-m", "slow")


@nox.session(venv_backend="none")
def bump(session: nox.Session) -> None:
    """Set one version everywhere: nox -s bump -- 0.2.0."""
    if len(session.posargs) != 1:
        session.error("give the new version")
    new, old = session.posargs[0], project("uopc")["version"]
    pin, old_pin = (".".join(v.split(".")[:2]) + ".0" for v in (new, old))
    for path in (ROOT / "packages").glob("*/pyproject.toml"):
        text = path.read_text().replace(f'version = "{old}"', f'version = "{new}"')
        path.write_text(text.replace(f"~={old_pin}", f"~={pin}"))


if __name__ == "__main__":
    nox.main()
