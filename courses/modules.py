"""Write the table of modules in README.md, from the job and the week that each module's docstring says."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "courses" / "README.md"
TABLE = re.compile(r"(?<=<!-- modules -->\n).*(?=<!-- end -->)", re.DOTALL)
WEEK = re.compile(r"\bweeks? (\d+)", re.IGNORECASE)
LAST_SENTENCE = re.compile(r"\.?\s*\(?weeks? \d+[^.)]*[.)]*$|\.$", re.IGNORECASE)


def docstrings() -> dict[str, str]:
    """The docstring of each module of ours; `__init__` only gathers names, and is left out."""
    return {
        ".".join(file.relative_to(source).with_suffix("").parts): ast.get_docstring(
            ast.parse(file.read_text())
        )
        or ""
        for source in sorted(ROOT.glob("packages/*/src"))
        for file in sorted(source.rglob("*.py"))
        if file.name != "__init__.py"
    }


def without_week() -> list[str]:
    """The modules whose docstring does not say the week."""
    return [name for name, text in docstrings().items() if not WEEK.search(text)]


def table() -> str:
    """Week, module and job, in Markdown."""
    rows = []
    for name, text in docstrings().items():
        if week := WEEK.search(text):
            job = " ".join(text.split("\n\n")[0].split())
            rows.append((int(week[1]), name, LAST_SENTENCE.sub("", job, count=1)))
    body = "".join(f"| {week} | `{name}` | {job} |\n" for week, name, job in sorted(rows))
    return f"\n| week | module | job |\n|---|---|---|\n{body}\n"


if __name__ == "__main__":
    README.write_text(TABLE.sub(lambda _: table(), README.read_text()))
