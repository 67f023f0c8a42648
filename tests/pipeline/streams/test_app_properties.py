"""Properties of an app, checked before Spark starts."""

import pytest

import barnabas.streams as ks
from barnabas.config import ConfigError


def test_timeout_of_transactions_that_is_not_a_number_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=1m is not a number"):
        ks.App("app", state=tmp_path, properties={"transaction.timeout.ms": "1m"})
