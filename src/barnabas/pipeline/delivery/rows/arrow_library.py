"""PyArrow, which has no types: its modules under names of type Any."""

import importlib
from typing import Any, Final

pa: Final[Any] = importlib.import_module("pyarrow")
pc: Final[Any] = importlib.import_module("pyarrow.compute")
pq: Final[Any] = importlib.import_module("pyarrow.parquet")
