"""What speed.py times: each work with its peers."""

from . import kernels, products, steps
from .work import Work

WORKS: dict[str, Work] = {work.name: work for work in (*products.WORKS, *kernels.WORKS, *steps.WORKS)}
__all__ = ["WORKS", "Work"]
