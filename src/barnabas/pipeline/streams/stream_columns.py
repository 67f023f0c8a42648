"""The columns of streams, and how expressions of users are evaluated on them.

A stream that was not grouped yet is a DataFrame with one row for each record of its topics. A row
that a filter removed stays, marked, up to the writer, which commits its offset: so the position of
a job reaches the end of a topic of which it writes nothing. Expressions are not evaluated for such
rows, and their key and value are null.
"""

import contextlib
import functools
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.micro_batches.repeatable_rows import ANY_PARTITION
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.streams.function_results import Convert, ResultTypeError, converter
from barnabas.pipeline.streams.operator_errors import OperatorError
from barnabas.pipeline.streams.serdes import Column, functions, spark_type

KEY: Final = "key"
VALUE: Final = "value"
TOPIC: Final = "_topic"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
HEADERS: Final = "_headers"
OLD: Final = "_old"
"""The value that a change of a table replaces, where a filter needs it."""
WINDOW: Final = "_window"
"""The window of a windowed key, a struct of start and end."""
KEPT: Final = "_kept"
"""False in rows that a filter removed."""
LETTER: Final = "_letter"
"""The dead letter of a record that could not be decoded."""
PLACE: Final = (TOPIC, PARTITION, OFFSET)
MARKS: Final = (KEPT, LETTER)

RecordFunction: TypeAlias = Callable[[Any, Any], Any]
"""A function of a record's key and value. Structs are rows: `value.user` or `value["user"]`."""

Expression: TypeAlias = str | Column | RecordFunction
"""SQL text over `key`, `value` and the fields of both, a Column, or a function of key and value."""


def visible(frame: DataFrame) -> DataFrame:
    """Return the rows that no filter removed, without the marks."""
    marks = [name for name in MARKS if name in frame.columns]
    return frame.filter(KEPT).drop(*marks) if KEPT in marks else frame


def fields_of(frame: DataFrame, name: str) -> list[str]:
    """Return the fields of a column that is a struct."""
    kind = frame.schema[name].dataType
    return list(kind.names) if kind.typeName() == "struct" else []


def scoped(frame: DataFrame) -> DataFrame:
    """Return the frame with fields of the value, and of the key, as columns of their names."""
    taken = {name.lower() for name in frame.columns}
    added: list[Column] = []
    for column in (VALUE, KEY):
        for field in fields_of(frame, column) if column in frame.columns else ():
            if field.lower() not in taken:
                taken.add(field.lower())
                added.append(functions().col(column)[field].alias(field))
    return frame.select("*", *added) if added else frame


def evaluated(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return the frame with columns replaced or added by expressions over `scoped`.

    Raises OperatorError for a column that does not exist, or types that do not fit.
    """
    kept = [columns.get(name, functions().col(name)).alias(name) for name in frame.columns]
    added = [column.alias(name) for name, column in columns.items() if name not in frame.columns]
    with readable_errors():
        return scoped(frame).select(*kept, *added)


def computed_here(column: Column) -> Column:
    """Return a column that Spark computes once for each row, in this projection.

    Of an expression that gives the same result each time, Spark makes a copy for each place that
    uses the column, and moves filters with their copies below the projection. What the number of
    a partition is part of, it leaves where it is.
    """
    return functions().when(functions().expr(ANY_PARTITION), column)


@contextlib.contextmanager
def readable_errors() -> Generator[None]:
    """Raise OperatorError for an expression that Spark refuses, without the plan of the query."""
    try:
        yield
    except pyspark("errors").AnalysisException as error:
        reason = str(error).partition("\n")[0]
        raise OperatorError(f"an expression does not fit its records: {reason}") from None


def is_live(frame: DataFrame) -> Column | None:
    """Return the condition for rows that no filter removed, None where none are marked."""
    return functions().col(KEPT) if KEPT in frame.columns else None


def column(frame: DataFrame, expression: Expression, returns: str | None = None) -> Column:
    """Return the column that an expression is, null for rows that a filter removed.

    Raises ValueError when a function comes without the type that it returns.
    """
    live = is_live(frame)
    if isinstance(expression, str):
        found = functions().expr(expression)
    elif _is_column(expression):
        found = expression
    else:
        return _called(frame, expression, returns, live)
    return found if live is None else functions().when(live, found)


def _is_column(expression: Any) -> bool:
    return hasattr(expression, "alias") and hasattr(expression, "cast")


def _called(
    frame: DataFrame, function: RecordFunction, returns: str | None, live: Column | None
) -> Column:
    """Return the results of a function, which is not called for rows that a filter removed."""
    if returns is None:
        raise ValueError(
            "a function needs the type of its results, as returns='STRING' or returns='user "
            "STRING, n BIGINT'"
        )

    place = functions().struct(*[_present(frame, name) for name in PLACE])
    kind = spark_type(returns)
    called = functions().udf(functools.partial(_call, function, converter(kind)), kind)
    return called(functions().lit(True) if live is None else live, KEY, VALUE, place)


def _present(frame: DataFrame, name: str) -> Column:
    found = functions().col(name) if name in frame.columns else functions().lit(None)
    return found.alias(name)


def _call(
    function: RecordFunction, convert: Convert, is_live: bool, key: Any, value: Any, place: Any
) -> Any:
    """Return a function's result in a worker. Raises TaskFailureError when it raises."""
    if not is_live:
        return None
    try:
        return convert(function(key, value))
    except Exception as error:
        record = None if place[OFFSET] is None else RecordPosition(*place)
        where = "" if record is None else f" for record {record}"
        is_result = isinstance(error, ResultTypeError)
        failed = "returned a wrong value" if is_result else f"raised {type(error).__name__}"
        message = f"{_name_of(function)} {failed}{where}: {error}"
        raise TaskFailureError(message, is_permanent=True, record=record) from error


def _name_of(function: RecordFunction) -> str:
    return str(getattr(function, "__qualname__", function))
