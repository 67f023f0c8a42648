"""Values of folds: decimals keep their digits, as Spark writes them and as folds do."""

import decimal
from decimal import Decimal
from functools import reduce

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.streams.fold_values import FoldValues, written
from barnabas.pipeline.streams.folded_groups import SUM

DECIMAL = FoldValues(Decimal, has_decimals=True)
SHAPE = {"n": Decimal, "list": [Decimal], "map": (Decimal,), "text": None}
STRUCT = FoldValues(SHAPE, has_decimals=True)
decimals = st.decimals(-(10**33), 10**33, allow_nan=False, allow_infinity=False, places=4)


@given(decimals, st.lists(decimals))
def test_decimals_of_a_struct_keep_their_digits(one: Decimal, more: list[Decimal]) -> None:
    value = {"n": one, "list": more, "map": {"k": one}, "text": "1.5"}
    assert STRUCT.read(written(value)) == value
    numbers = ",".join(f"{each:f}" for each in more)
    of_spark = f'{{"v":{{"n":{one:f},"list":[{numbers}],"map":{{"k":{one:f}}},"text":"1.5"}}}}'
    assert STRUCT.read(of_spark.encode()) == value


@given(st.lists(decimals, min_size=2))
def test_sums_of_decimals_are_exact(values: list[Decimal]) -> None:
    fold = attrs.evolve(SUM, values=DECIMAL, aggregates=DECIMAL)
    total = written(values[0])
    for each in values[1:]:
        total = fold.combined(fold.function, b"k", total, written(each)) or b""
    with decimal.localcontext(prec=100):
        assert DECIMAL.read(total) == reduce(Decimal.__add__, values)


@pytest.mark.parametrize("has_decimals", [False, True])
@pytest.mark.parametrize("text", ['"Infinity"', '"-Infinity"', "-Infinity", "0.1", "5", "null"])
def test_doubles_are_floats_also_those_that_are_not_finite(text: str, has_decimals: bool) -> None:
    found = FoldValues([float], has_decimals).read(b'{"v":[%b]}' % text.encode())
    assert found == [None if text == "null" else float(text.strip('"'))]
    assert isinstance(found[0], float | None)


def test_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        written({1})
