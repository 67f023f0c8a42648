"""A few kills in every test run; `make soak` runs hundreds."""

import pytest

from barnabas.testing.history import History
from tests.crash.kills import Found, run, wrong_with
from tests.crash.loads import PLAIN, SHORT

STARTS = {(PLAIN, 0): 0, (SHORT, 0): 2}


def test_node_killed_under_load_loses_and_changes_no_record() -> None:
    result = run(cycles=5, seed=7)
    assert result.faults == []
    assert result.kills >= 5
    assert min(result.done[name] for name in ("plain-none", "ledger", "table", "reader")) > 0
    assert result.done["compactions"] > 0
    assert result.done["segments retained away"] > 0


def told(found: Found) -> History:
    """Four records were acknowledged; all of PLAIN exist, and the second of SHORT."""
    history = History()
    for topic, number, offset in ((PLAIN, 1, 0), (PLAIN, 2, 1), (SHORT, 1, 1), (SHORT, 2, 2)):
        operation = history.begin(topic)
        operation.sent(topic, 0, f"{topic} {number} x", offset)
        operation.ok()
    reading = history.begin("judge")
    for (topic, partition), records in found.items():
        for offset, _, value in records:
            reading.read(topic, partition, offset, value)
    return history


def whole() -> Found:
    return {
        (PLAIN, 0): [(0, "", f"{PLAIN} 1 x"), (1, "", f"{PLAIN} 2 x")],
        (SHORT, 0): [(2, "", f"{SHORT} 2 x")],
    }


def test_check_accepts_records_removed_by_retention() -> None:
    assert wrong_with(told(whole()), whole(), STARTS) == []


@pytest.mark.parametrize(
    ("topic", "records", "said"),
    [
        (PLAIN, [(0, "", f"{PLAIN} 1 x")], "lost"),
        (PLAIN, [(1, "", f"{PLAIN} 2 x")], "lost"),
        (PLAIN, [(0, "", f"{PLAIN} 1 x"), (1, "", f"{PLAIN} 2 y")], "no client wrote"),
        (
            PLAIN,
            [(0, "", f"{PLAIN} 1 x"), (1, "", f"{PLAIN} 2 x"), (2, "", f"{PLAIN} 2 x")],
            "duplicate",
        ),
        (PLAIN, [(0, "", f"{PLAIN} 2 x"), (1, "", f"{PLAIN} 1 x")], "out of order"),
        (SHORT, [], "lost"),
    ],
)
def test_check_finds_lost_changed_and_duplicate_records(topic, records, said) -> None:
    found = {**whole(), (topic, 0): records}
    faults = wrong_with(told(found), found, STARTS)
    assert any(said in fault for fault in faults)
