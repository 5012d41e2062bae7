"""The command `uopc check-gpu`: what kernels do wrong on a GPU,
and what their accesses cost, line by line. Week 8.
"""

from __future__ import annotations

from pathlib import Path

from uop_codegen_c import as_kernel, current_freedoms
from uop_ir import CommandParser, UOp, UopError, generated, get_backend, override, read_uir, run_python
from uop_ir import settings as ir_settings

from .check import Report, check_kernel
from .check_html import check_html
from .cuda_file import read_cuda
from .emu import EmuBackend
from .lower import CudaSource, generate
from .settings import settings


def check_command(argv: list[str]) -> int:
    """Check the kernels of a .uir file, a .cu file or a script as a GPU would run them;
    1 where something is wrong.
    """
    parser = CommandParser(prog="uopc check-gpu", description=check_command.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir|FILE.cu|SCRIPT.py")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated memory (default 0)")
    parser.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE", help="a scalar of a .uir file"
    )
    parser.add_argument("--html", metavar="PAGE", help="write what was found as a page for a browser too")
    options = parser.parse_args(argv)
    if options.seed < 0:
        raise UopError(f"--seed {options.seed} is less than 0", remedy="at least 0")
    if options.var and not options.file.endswith(".uir"):
        raise UopError("--var is for a .uir file", remedy="leave out --var")
    if options.file.endswith(".py"):
        reports = _script(options.file)
    elif options.file.endswith(".cu"):
        reports = [_checked(*read_cuda(options.file), options.seed)]
    else:
        source = generate(as_kernel(read_uir(options.file).root), current_freedoms())
        reports = [_checked(source, _scalars(source, options.var), options.seed)]
    print("\n\n".join(map(str, reports)))
    if options.html is not None:
        _write(options.html, check_html(reports, options.file))
    wrong = sum(len(report.findings) for report in reports)
    print(f"\n{wrong} finding{'' if wrong == 1 else 's'}")
    return 1 if wrong else 0


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UopError(f"cannot write {path!r}: {error.strerror or error}") from None


def _checked(source: CudaSource, scalars: dict[UOp, float | int], seed: int) -> Report:
    """A kernel on generated memory, that of `uopc run`."""
    return check_kernel(
        source, [generated(p, seed) for p in source.params if p.arg.size is not None], scalars
    )


def _scalars(source: CudaSource, given: list[str]) -> dict[UOp, float | int]:
    """The values of NAME=VALUE for the scalars of a kernel."""
    values = dict(text.partition("=")[::2] for text in given)
    params = {p.arg.name: p for p in source.params if p.arg.size is None}
    if values.keys() != params.keys():
        raise UopError(
            f"--var names {', '.join(values) or 'nothing'}",
            remedy=f"--var for {', '.join(params) or 'nothing'}",
        )
    try:
        return {params[n]: float(v) if params[n].dtype.is_float else int(v) for n, v in values.items()}
    except ValueError as error:
        raise UopError(f"--var: {error}", remedy="a number") from None


def _script(path: str) -> list[Report]:
    """Each kernel that a script runs on EMU, the backend of tensors that name none,
    in the order of EMU_ORDER.

    Raises UopError where there is no such file.
    """
    backend = get_backend("EMU")
    assert isinstance(backend, EmuBackend)
    backend.reports.clear()
    with override(ir_settings, dev="EMU"), override(settings, emu_check=2):
        run_python(path)
    return list(backend.reports.values())
