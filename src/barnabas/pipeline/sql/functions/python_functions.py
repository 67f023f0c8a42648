"""Functions in Python, which installed packages declare as entry points.

The name of an entry point is that of the function. A statement names it, and nothing else of a
statement is imported. Workers import this module, so the parser is not imported with it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.connect.plugin_registry import SQL_FUNCTIONS
from barnabas.pipeline.sql.functions.function_values import Function, Signature, spark
from barnabas.pipeline.sql.functions.python_times import for_python
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import SqlType, resolved, to_spark
from barnabas.pipeline.streams.function_results import converter

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

CATEGORY: Final = "Python"
logger: Final = logging.getLogger("barnabas.pipeline.sql")


@dataclass(frozen=True)
class PythonFunction:
    """A function with the types of its arguments and of its result, as SQL writes them."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    returns: str

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)


def scalar(*parameters: str, returns: str) -> Callable[[Callable[..., Any]], PythonFunction]:
    """Return the decorator of a scalar function: the types of its arguments and of its result.

    Types are those of SQL, such as `BIGINT`, `ARRAY<STRING>` or `DECIMAL(10, 2)`. NULL is None.
    Where the function raises, the result is NULL.
    """

    def declared(function: Callable[..., Any]) -> PythonFunction:
        return PythonFunction(function, parameters, returns)

    return declared


def python_names() -> list[str]:
    """Return the names of the functions that packages declare, in upper case."""
    return sorted({each.name.upper() for each in entry_points(group=SQL_FUNCTIONS)})


def python_function(name: str) -> Function | None:
    """Return the row of a function by its name in upper case, None when no package has it.

    Raises UnresolvedError, which names the entry point, when it does not load.
    """
    found = sorted(
        {(each.name, each.value): each for each in entry_points(group=SQL_FUNCTIONS)}.items(),
    )
    named = [each for _, each in found if each.name.upper() == name]
    if len(named) > 1:
        shown = " and ".join(map(_shown, named))
        raise UnresolvedError(f"There are two functions {name}: {shown}; uninstall one of them")
    return _row(name, named[0]) if named else None


def _row(name: str, entry: EntryPoint) -> Function:
    target = _loaded(entry)
    try:
        parameters = tuple(_type(each) for each in target.parameters)
        returns = _type(target.returns)
    except (SqlError, UnresolvedError) as error:
        raise UnresolvedError(f"{_failed(name, entry)} has a type that is wrong: {error}") from None

    def build(*columns: Column) -> Column:
        kind = to_spark(returns)
        call = functools.partial(_called, entry.name, entry.value, kind)
        given = (for_python(*each) for each in zip(columns, parameters, strict=True))
        return spark().udf(call, kind)(*given)

    version = entry.dist.version if entry.dist is not None else ""
    described = (target.function.__doc__ or "").strip().partition("\n")[0]
    signature = Signature(parameters, returns, build)
    return Function(name, CATEGORY, described, version, (signature,))


def _loaded(entry: EntryPoint) -> PythonFunction:
    name = entry.name.upper()
    try:
        found: Any = entry.load()
    except Exception as error:
        reason = f"raised {type(error).__name__}: {error}"
        raise UnresolvedError(f"{_failed(name, entry)} {reason}") from error
    if not isinstance(found, PythonFunction):
        raise UnresolvedError(
            f"{_failed(name, entry)} is a {type(found).__name__}: decorate the function with "
            "barnabas.sql_functions.scalar"
        )
    return found


def _failed(name: str, entry: EntryPoint) -> str:
    return f"The function {name} does not load: the entry point {_shown(entry)}"


def _shown(entry: EntryPoint) -> str:
    package = "" if entry.dist is None else f" of the package {entry.dist.name}"
    return f"{entry.name} = {entry.value}{package}"


def _type(text: str) -> SqlType:
    """Return the type of a text. Raises SqlError, UnresolvedError."""
    from barnabas.pipeline.sql.scripts import StatementText, parse_statement
    from barnabas.pipeline.sql.statement_values import CreateType

    statement = parse_statement(StatementText(f"CREATE TYPE t AS {text}", 1, 1), {})
    if not isinstance(statement, CreateType):
        raise UnresolvedError(f"{text} is not a type")
    return resolved(statement.type)


@functools.cache
def _worker_function(name: str, target: str, kind: Any) -> Callable[..., Any]:
    """Return the function that a worker calls: its failures are NULL, and the first is logged."""
    called: Any = EntryPoint(name, target, SQL_FUNCTIONS).load()
    convert = converter(kind)
    failures: list[Exception] = []

    def run(*arguments: Any) -> Any:
        try:
            return convert(called(*map(_argument, arguments)))
        except Exception as error:
            if not failures:
                failures.append(error)
                logger.warning("a function failed function=%s", name, exc_info=True)
            return None

    return run


def _called(name: str, target: str, kind: Any, *arguments: Any) -> Any:
    return _worker_function(name, target, kind)(*arguments)


def _argument(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
