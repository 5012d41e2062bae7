"""uop-rewrite: patterns, a rewrite engine, folding,
bounds and index arithmetic over the nodes of uop-ir. Week 1.
"""

from .bounds import bounds, values, wraps
from .collapse import collapse
from .engine import Order, graph_rewrite
from .guarded_bounds import bounds_given
from .guards import clauses
from .linear import Linear, build, linear
from .observer import Observer, observing
from .passes import Before, Pass, check_order, run_passes
from .pattern import Pattern, const, each, literal, matches, var
from .profile import Profile
from .rules import ANY, BOOL, FLOATS, INDEX, INTEGERS, NUMBERS, VALUES, Region, RewriteError, Rule, RuleSet
from .settings import settings
from .simplify import Fold, Simplify
from .sums import spread
from .symbolic import folding, symbolic
from .trace import Trace
from .trace_html import trace_html
from .trace_json import trace_json
from .trace_text import trace_text

__all__ = [
    "ANY",
    "BOOL",
    "FLOATS",
    "INDEX",
    "INTEGERS",
    "NUMBERS",
    "VALUES",
    "Before",
    "Fold",
    "Linear",
    "Observer",
    "Order",
    "Pass",
    "Pattern",
    "Profile",
    "Region",
    "RewriteError",
    "Rule",
    "RuleSet",
    "Simplify",
    "Trace",
    "bounds",
    "bounds_given",
    "build",
    "check_order",
    "clauses",
    "collapse",
    "const",
    "each",
    "folding",
    "graph_rewrite",
    "linear",
    "literal",
    "matches",
    "observing",
    "run_passes",
    "settings",
    "spread",
    "symbolic",
    "trace_html",
    "trace_json",
    "trace_text",
    "values",
    "var",
    "wraps",
]
