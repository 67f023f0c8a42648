"""Text scenarios of transactions: commands and their results (see `transaction_scenario`)."""

import os
from pathlib import Path

import pytest

from tests.coordinator.transactions.transaction_scenario import outcome

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_transaction_scenario_runs_as_written(file: Path) -> None:
    now = outcome(file)
    if os.environ.get("BARNABAS_REWRITE"):
        file.write_text(now)
    assert file.read_text() == now
