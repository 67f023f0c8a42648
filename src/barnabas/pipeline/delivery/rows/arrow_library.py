"""PyArrow, which has no types: its modules under names of type Any."""

import importlib
from typing import Any, Final


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        remedy = f"{error.name} is missing: pip install 'barnabas[spark]'"
        raise ModuleNotFoundError(remedy, name=error.name) from None


pa: Final[Any] = _module("pyarrow")
pc: Final[Any] = _module("pyarrow.compute")
pq: Final[Any] = _module("pyarrow.parquet")
