"""Write the table of modules in README.md, from the first line of each module's docstring (job and week)."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "courses" / "README.md"
TABLE = re.compile(r"(?<=<!-- modules -->\n).*(?=<!-- end -->)", re.DOTALL)
WEEK = re.compile(r"\s*\(?weeks? (\d+)[^.)]*[.)]*$", re.IGNORECASE)


def first_lines() -> dict[str, str]:
    """For each module of ours the first line of its docstring; `__init__` only gathers names, and is left out."""
    lines = {}
    for source in sorted(ROOT.glob("packages/*/src")):
        for file in sorted(source.rglob("*.py")):
            name = ".".join(file.relative_to(source).with_suffix("").parts)
            docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
            if file.name != "__init__.py":
                lines[name] = docstring.partition("\n")[0]
    return lines


def without_week() -> list[str]:
    """The modules whose docstring does not say the week."""
    return [name for name, line in first_lines().items() if not WEEK.search(line)]


def table() -> str:
    """Week, module and job, in Markdown."""
    rows = []
    for name, line in first_lines().items():
        if week := WEEK.search(line):
            rows.append((int(week[1]), name, line[: week.start()].removesuffix(".")))
    body = "".join(f"| {week} | `{name}` | {job} |\n" for week, name, job in sorted(rows))
    return f"\n| week | module | job |\n|---|---|---|\n{body}\n"


if __name__ == "__main__":
    README.write_text(TABLE.sub(lambda _: table(), README.read_text()))
