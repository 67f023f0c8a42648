"""Checks that a repeated micro-batch deals its rows out to the same tasks.

Tasks that have committed skip their rows then: others must not get those rows.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from barnabas.pipeline.delivery.driver import frame_sources, spark_internals
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.plan.task_failures import refused

STREAM_TIME: Final = "barnabas_stream_time"
"""The function of stream times, which a repeated micro-batch finds in the checkpoint."""
ANY_PARTITION: Final = "(SPARK_PARTITION_ID() >= 0)"
"""A condition that always holds, which keeps an expression in its projection."""
# A node of a logical plan that deals rows out in no order that a repeated micro-batch keeps; one
# partition gets all rows.
_ROUND_ROBIN: Final = re.compile(r"^[ :+~-]*Repartition (?!1,)\d+, ", re.MULTILINE)
_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions"
_NONDETERMINISTIC: Final = f"{_EXPRESSIONS}.Nondeterministic"
_USER_FUNCTIONS: Final = (f"{_EXPRESSIONS}.PythonUDF", f"{_EXPRESSIONS}.ScalaUDF")
# Spark takes each call of a method of Java for non-deterministic; those of these classes, which the
# serdes of floating-point numbers call, are not.
_CALL: Final = f"{_EXPRESSIONS}.CallMethodViaReflection"
_PURE: Final = ("java.lang.Double", "java.lang.Float")


def check(frame: DataFrame) -> None:
    """Raise JobStartError when a repeated micro-batch would deal the rows out differently."""
    plan = spark_internals.analyzed_plan(frame)
    if _ROUND_ROBIN.search(str(plan.toString())):
        raise refused(
            "repartition() without columns deals rows out differently when a micro-batch repeats: "
            "name the columns"
        )
    if plan.deterministic():
        return
    for node in frame_sources.plan_nodes(frame):
        for expression in frame_sources.items_of(node.expressions()):
            for changing in _changing(frame, expression):
                raise refused(
                    f"the query has {changing}, which may have another result when a micro-batch "
                    "is repeated, as rand(), uuid() and user functions that are marked as "
                    "non-deterministic: take the value from the record"
                )


def _changing(frame: DataFrame, expression: Any) -> Iterator[str]:
    """Return the texts of the parts of an expression that have another result each time."""
    if expression.deterministic() or str(expression.sql()) == ANY_PARTITION:
        return
    children = frame_sources.items_of(expression.children())
    below = [each for each in children if not each.deterministic()]
    if _is_stream_time(expression):
        yield from (text for each in below for text in _changing(frame, each))
        return
    if (_is_origin(frame, expression) or not below) and not _is_pure_call(frame, expression):
        yield str(expression.sql())
    for each in below:
        yield from _changing(frame, each)


def _is_stream_time(expression: Any) -> bool:
    return str(expression.nodeName()) == "PythonUDF" and str(expression.name()) == STREAM_TIME


def _is_origin(frame: DataFrame, expression: Any) -> bool:
    """True for an expression whose result differs also where its arguments do not."""
    if any(spark_internals.is_instance(frame, name, expression) for name in _USER_FUNCTIONS):
        return not expression.udfDeterministic()
    return spark_internals.is_instance(frame, _NONDETERMINISTIC, expression)


def _is_pure_call(frame: DataFrame, expression: Any) -> bool:
    is_call = spark_internals.is_instance(frame, _CALL, expression)
    return is_call and str(expression.children().apply(0).toString()) in _PURE
