"""Properties of an app, checked before Spark starts."""

from pathlib import Path

import pytest

import barnabas.streams as ks
from barnabas.config import ConfigError


def test_timeout_of_transactions_that_is_not_a_number_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=1m is not a number"):
        ks.App("app", state=tmp_path, properties={"transaction.timeout.ms": "1m"})


def test_app_with_its_state_at_a_uri_has_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    app = ks.App("app", state="s3a://bucket/state")
    assert app._state.checkpoint("app-out") == "s3a://bucket/state/checkpoints/app-out"
    assert list(tmp_path.iterdir()) == []
