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

DECIMAL = FoldValues(Decimal)
STRUCT = FoldValues({"n": Decimal, "list": [Decimal], "map": (Decimal,), "text": None})
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


def test_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        written({1})
