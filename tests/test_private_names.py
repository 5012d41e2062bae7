"""A package uses only the public names of the packages below it: those in the `__all__` of their `__init__`.

Those names are the contract that a package put in place of ours must meet. The check reads source, so that it
sees lazy imports and imports under TYPE_CHECKING too.
The suites of packages are held to it for other packages.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
MODULES = {
    p.name.replace("-", "_"): p for p in sorted(PACKAGES.iterdir()) if (p / "pyproject.toml").is_file()
}


def public_names(init: str) -> set[str]:
    """The strings of `__all__`, which has to be a literal list or tuple."""
    for node in ast.parse(init).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return set(ast.literal_eval(node.value))
    return set()


def defined_privately(tree: ast.AST) -> set[str]:
    """The names with one leading underscore that a module gives to something:
    variable, attribute, function, slot.
    """
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.Constant(value=str(name)) if name.isidentifier():
                names.add(name)
    return {n for n in names if n.startswith("_") and not n.startswith("__")}


def module_named(node: ast.Call) -> str | None:
    """`importlib.import_module("x")` and `__import__("x")` name the module x."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if function in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def violations(
    source: str, *, own: str, public: dict[str, set[str]], private: dict[str, set[str]]
) -> Iterator[tuple[int, str]]:
    """The line and text of each use of a name of another package that is not public."""
    tree = ast.parse(source)
    others = public.keys() - {own}
    aliases: dict[str, str] = {}
    foreign = set().union(*(private[o] for o in others)) - private[own] - defined_privately(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for name in node.names:
                    top, _, inner = name.name.partition(".")
                    if top in others and inner:
                        yield node.lineno, name.name
                    elif top in others:
                        aliases[name.asname or top] = top
            case ast.ImportFrom(module=str(module), level=0):
                top, _, inner = module.partition(".")
                if top in others:
                    used = [name.name for name in node.names]
                    yield from ((node.lineno, f"{module}.{n}") for n in used if inner or n not in public[top])
            case ast.Call() if (named := module_named(node)) and named.partition(".")[0] in others:
                yield node.lineno, named
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in aliases:
                module = aliases[node.value.id]
                if node.attr not in public[module]:
                    yield node.lineno, f"{module}.{node.attr}"
            elif node.attr in foreign:
                yield node.lineno, f".{node.attr}"


def sources(package: Path, *folders: str) -> list[Path]:
    return [f for folder in folders for f in sorted((package / folder).rglob("*.py"))]


PUBLIC = {m: public_names((p / "src" / m / "__init__.py").read_text()) for m, p in MODULES.items()}
PRIVATE = {
    m: set().union(*(defined_privately(ast.parse(f.read_text())) for f in sources(p, "src")))
    for m, p in MODULES.items()
}


@pytest.mark.parametrize("module", MODULES)
def test_only_public_names_of_other_packages_are_used(module: str) -> None:
    found = [
        f"{file.relative_to(PACKAGES)}:{line}: {name}"
        for file in sources(MODULES[module], "src", "tests")
        for line, name in violations(file.read_text(), own=module, public=PUBLIC, private=PRIVATE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from low import good", []),
        ("import low\nlow.good()", []),
        ("from high.inner import anything", []),
        ("def f(self):\n  return self._own", []),
        ("from low import bad", ["low.bad"]),
        ("from low import *", ["low.*"]),
        ("from low.inner import good", ["low.inner.good"]),
        ("import low.inner", ["low.inner"]),
        ("import low as l\nl.bad()", ["low.bad"]),
        ("def f():\n  from low import bad", ["low.bad"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from low import bad", ["low.bad"]),
        ("import importlib\nimportlib.import_module('low.inner')", ["low.inner"]),
        ("from low import good\ngood._hidden", ["._hidden"]),
    ],
)
def test_the_check_sees(source: str, found: list[str]) -> None:
    public = {"low": {"good"}, "high": {"thing"}}
    private = {"low": {"_hidden", "_own"}, "high": {"_own"}}
    assert [n for _, n in violations(source, own="high", public=public, private=private)] == found
