"""uop-ir: the IR of uopc. Types, nodes, their text, their meaning, and the protocol of backends. Week 1."""

from .backend import (
    Backend,
    Executable,
    HostMemory,
    Limits,
    Plan,
    Program,
    Reporting,
    backend_names,
    get_backend,
)
from .cli import CommandParser, installed_models, run_python, run_python_or_model
from .definitions import definition
from .dlpack import recode_dlpack
from .drawing import to_dot, to_svg
from .dtype import Const, DType, Kind, by_name, dtypes, from_numpy
from .errors import BackendError, BoundsError, ParseError, Span, UopError, VerifyError
from .infer_structure import REDUCE_IDENTITY, call_params
from .inline import inline_call
from .interp import evaluate, run_program
from .interp_steps import fold
from .levels import Level, level_of
from .movement import INDEX_MAPS, flatten, index_map, sizes
from .ops import AddrSpace, Alloc, AxisType, Buffer, Ops, Param
from .promotion import promote
from .run_inputs import generated, name_of
from .settings import override, read_settings, settings
from .table import OPS
from .uir_parse import Parsed, parse_uir, read_uir
from .uir_print import format_uir
from .uop import UOp, index
from .verifier import verify
from .walks import toposort

__all__ = [
    "INDEX_MAPS",
    "OPS",
    "REDUCE_IDENTITY",
    "AddrSpace",
    "Alloc",
    "AxisType",
    "Backend",
    "BackendError",
    "BoundsError",
    "Buffer",
    "CommandParser",
    "Const",
    "DType",
    "Executable",
    "HostMemory",
    "Kind",
    "Level",
    "Limits",
    "Ops",
    "Param",
    "ParseError",
    "Parsed",
    "Plan",
    "Program",
    "Reporting",
    "Span",
    "UOp",
    "UopError",
    "VerifyError",
    "backend_names",
    "by_name",
    "call_params",
    "definition",
    "dtypes",
    "evaluate",
    "flatten",
    "fold",
    "format_uir",
    "from_numpy",
    "generated",
    "get_backend",
    "index",
    "index_map",
    "inline_call",
    "installed_models",
    "level_of",
    "name_of",
    "override",
    "parse_uir",
    "promote",
    "read_settings",
    "read_uir",
    "recode_dlpack",
    "run_program",
    "run_python",
    "run_python_or_model",
    "settings",
    "sizes",
    "to_dot",
    "to_svg",
    "toposort",
    "verify",
]
