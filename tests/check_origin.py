"""Fail unless the package NAME is installed from the folder PATH,
unchanged, with only its own module (grading).
"""

import importlib.util
import json
import sys
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

ENTRY_POINTS = {
    "console_scripts",
    "uop.backends",
    "uop.commands",
    "uop.doctor",
    "uop.emit",
    "uop.export",
    "uop.models",
    "uop.passes",
}


def check(name: str, path: Path) -> str:
    """Where the package was found; exits with the reason if it is not the one in `path`."""
    module = name.replace("-", "_")
    dist = distribution(name)
    url = json.loads(dist.read_text("direct_url.json") or "{}").get("url", "")
    if Path(unquote(urlsplit(url).path)) != path:
        sys.exit(f"{name} came from {url or 'an index'}, not from {path}")

    files = dist.files or []
    strays = {f.parts[0] for f in files} - {module, f"{module}-{dist.version}.dist-info", ".."}
    strays |= {ep.group for ep in dist.entry_points} - ENTRY_POINTS
    strays |= {str(f) for f in files if f.parts[0] == ".." and f.parts[-2] != "bin"}
    if strays:
        sys.exit(f"{name} also installs {', '.join(sorted(strays))}")

    home = Path(str(dist.locate_file(module)))
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin != str(home / "__init__.py"):
        sys.exit(f"import {module} finds {spec and spec.origin}, not {home}")
    (source,) = [p for p in (path / "src" / module, path / module) if (p / "__init__.py").is_file()]
    for file in source.rglob("*.py"):
        installed = home / file.relative_to(source)
        if not installed.is_file() or installed.read_bytes() != file.read_bytes():
            sys.exit(f"{installed} is not {file}")
    return f"{name} {dist.version} from {path}"


given, folder = sys.argv[1:]
print("grading", check(given, Path(folder)))
