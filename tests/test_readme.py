"""What README.md says is so."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_taste_prints_what_it_says() -> None:
    (source,) = blocks("python")
    expected = "".join(line.removeprefix("# ") for line in source.splitlines(keepends=True) if line[0] == "#")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})  # noqa: S102
    assert printed.getvalue() == expected


def test_ci_runs_the_test_line() -> None:
    (line,) = [block.strip() for block in blocks("sh") if block.rstrip().endswith("/nox")]
    assert line in (ROOT / ".ci" / "run").read_text()
