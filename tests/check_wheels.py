"""Fail unless each wheel named has its module, typed, its licence, and nothing else."""

import sys
import zipfile
from email.parser import Parser

for path in sys.argv[1:]:
    with zipfile.ZipFile(path) as wheel:
        files = set(wheel.namelist())
        (metadata,) = [f for f in files if f.endswith(".dist-info/METADATA")]
        fields = Parser().parsestr(wheel.read(metadata).decode())
    info = metadata.removesuffix("/METADATA")
    module = info.split("-")[0]
    if missing := {f"{module}/__init__.py", f"{module}/py.typed", f"{info}/licenses/LICENSE"} - files:
        sys.exit(f"{path} lacks {', '.join(sorted(missing))}")
    if strays := {f.split("/")[0] for f in files} - {module, info}:
        sys.exit(f"{path} also holds {', '.join(sorted(strays))}")
    if fields["License-Expression"] != "Apache-2.0":
        sys.exit(f"{path} has the licence {fields['License-Expression']}")
