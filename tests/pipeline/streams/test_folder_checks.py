"""Functions of aggregates in the wrong order are refused before a record comes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.pipeline.streams.folder_checks import MERGE, check_function, check_initial
from barnabas.pipeline.streams.grouped_stream import GroupedStream
from barnabas.pipeline.streams.grouped_table import GroupedTable
from barnabas.pipeline.streams.operator_errors import OperatorError

# The operators refuse before they look at the rows.
NO_ROWS = cast("Any", SimpleNamespace())
STREAM, TABLE = GroupedStream(NO_ROWS, ()), GroupedTable(NO_ROWS, ())


def two(aggregate: int, value: int) -> int:
    return aggregate + value


def three(key: str, value: int, aggregate: int) -> int:
    return aggregate + value


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "fold as in Kafka Streams": (
        lambda: STREAM.fold(lambda: 0, three, returns="INT"),
        r"the initial value of fold\(\) is the function .*give the value, such as 0",
    ),
    "three parameters": (
        lambda: STREAM.fold(0, three, returns="INT"),
        r"calls function\(aggregate, value\), and three has the parameters \(key: str, value: int, "
        r".*without the key",
    ),
    "function first": (
        lambda: STREAM.fold(two, cast("Any", 0), returns="INT"),
        "the initial value of .* is the function two",
    ),
    "no function": (
        lambda: STREAM.fold(0, cast("Any", 0), returns="INT"),
        "function is 0, which is not a function",
    ),
    "value first": (
        lambda: STREAM.fold(0, lambda value, aggregate: value, returns="INT"),
        "aggregate comes first here",
    ),
    "merge of three": (
        lambda: STREAM.fold(0, two, returns="INT", merge=cast("Any", three)),
        r"calls merge\(left, right\)",
    ),
    "reduce": (lambda: STREAM.reduce(cast("Any", three)), r"reduce\(\) calls function"),
    "initial without JSON": (
        lambda: STREAM.fold({1}, two, returns="INT"),
        "is of the type set",
    ),
    "table's fold": (lambda: TABLE.fold(0, two, cast("Any", three), returns="INT"), "calls remove"),
    "table's adder": (lambda: TABLE.fold(0, cast("Any", three), two, returns="INT"), "calls add"),
    "table's initial": (lambda: TABLE.fold(lambda: 0, two, two, returns="INT"), "give the value"),
    "table's reduce": (lambda: TABLE.reduce(two, cast("Any", three)), "calls remove"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_functions_that_the_first_record_would_fail_are_refused(case: str) -> None:
    build, message = REFUSED[case]
    with pytest.raises(OperatorError, match=message):
        build()


def test_functions_that_take_the_arguments_are_accepted() -> None:
    class Adder:
        def __call__(self, total: int, value: int, step: int = 1) -> int:
            return total + step

        def method(self, *found: int) -> int:
            return sum(found)

    for function in (two, max, min, Adder(), Adder().method, lambda _, value: value):
        check_function("fold()", "function", function)
    check_function("fold()", "merge", lambda left, right: left, MERGE)
    for initial in (None, 0, 1.5, "", [], {"n": [1, None]}):
        check_initial("fold()", initial)
