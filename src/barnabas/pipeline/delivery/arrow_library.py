"""PyArrow, which has no types: its two modules under names of type Any."""

import importlib
from typing import Any, Final

pa: Final[Any] = importlib.import_module("pyarrow")
pc: Final[Any] = importlib.import_module("pyarrow.compute")


def filesystem() -> Any:
    """Return `pyarrow.fs`, which only remote checkpoints need."""
    return importlib.import_module("pyarrow.fs")
