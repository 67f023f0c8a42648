"""The SQLite file of a view, against a dict."""

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.pipeline.views.view_keys import RowKey
from barnabas.pipeline.views.view_store import (
    Change,
    Origin,
    Row,
    ViewStore,
    ViewStoreError,
)

ORIGIN = Origin("cluster", "per-user", "id-1", "plain")
KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\x00", b"\xff"])
TIMES = st.integers(0, 5)
CHANGES = st.lists(
    st.builds(
        Change,
        st.builds(RowKey, KEYS, TIMES, TIMES),
        st.one_of(st.none(), st.binary(max_size=3)),
        st.integers(0, 9),
    ),
    max_size=6,
)


class StoreBesideDict(RuleBasedStateMachine):
    """Batches, restarts and rebuilds; all queries answer as the dict does."""

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "view.sqlite"
        self.rows: dict[RowKey, Row] = {}
        self.positions: dict[int, int] = {}
        self.store = ViewStore(self.path)
        assert self.store.open(ORIGIN) is None

    def teardown(self) -> None:
        self.store.close()
        self.directory.cleanup()

    @rule(partition=st.integers(0, 2), changes=CHANGES, skipped=st.integers(0, 3))
    def apply(self, partition: int, changes: list[Change], skipped: int) -> None:
        before = self.positions.get(partition, 10)
        after = before + len(changes) + skipped
        self.store.apply(partition, before, after, changes)
        self.positions[partition] = after
        for change in changes:
            if change.value is None:
                self.rows.pop(change.key, None)
            else:
                self.rows[change.key] = Row(change.key, change.value, change.timestamp)

    @rule(changes=CHANGES)
    def apply_at_a_wrong_position(self, changes: list[Change]) -> None:
        if 0 in self.positions:
            with pytest.raises(ViewStoreError, match="partition 0 is at offset"):
                self.store.apply(0, self.positions[0] + 1, self.positions[0] + 9, changes)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = ViewStore(self.path)
        assert self.store.open(ORIGIN) is None

    @rule()
    def rebuild(self) -> None:
        self.store.reset(ORIGIN)
        self.rows, self.positions = {}, {}

    @rule(key=KEYS, low=st.one_of(st.none(), TIMES), high=st.one_of(st.none(), TIMES))
    def windows(self, key: bytes, low: int | None, high: int | None) -> None:
        expected = [
            row
            for _, row in sorted(self.rows.items())
            if row.key.key == key
            and (low is None or row.key.start_ms >= low)
            and (high is None or row.key.start_ms <= high)
        ]
        assert self.store.windows(key, low, high) == expected

    @rule(low=st.one_of(st.none(), KEYS), high=st.one_of(st.none(), KEYS))
    def range(self, low: bytes | None, high: bytes | None) -> None:
        assert list(self.store.range(low, high)) == [
            row
            for _, row in sorted(self.rows.items())
            if (low is None or row.key.key >= low) and (high is None or row.key.key <= high)
        ]

    @rule(key=st.builds(RowKey, KEYS, TIMES, TIMES))
    def get(self, key: RowKey) -> None:
        assert self.store.get(key) == self.rows.get(key)
        assert list(self.store.range(after=key)) == [
            row for _, row in sorted(self.rows.items()) if row.key > key
        ]

    @invariant()
    def positions_are_stored(self) -> None:
        if hasattr(self, "store"):
            assert self.store.positions() == self.positions
            assert self.store.count() == len(self.rows)


TestStoreBesideDict = StoreBesideDict.TestCase
TestStoreBesideDict.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "views" / "view.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[ViewStore]:
    found = ViewStore(path)
    found.open(ORIGIN)
    found.apply(0, 0, 1, [Change(RowKey(b"k"), b"v", 1)])
    found.note_current(77)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic_id": "id-2"}, "topic per-user was recreated: its id was id-1, now it is id-2"),
        ({"keys": "session"}, "the view was built for plain keys, not for session keys"),
        ({"cluster_id": "other"}, "holds topic per-user of cluster cluster, not topic per-user of"),
        ({"topic": "other"}, "holds topic per-user of cluster cluster, not topic other of"),
    ],
)
def test_open_with_another_origin_removes_rows(
    store: ViewStore, path: Path, change: dict[str, str], reason: str
) -> None:
    store.close()
    again = ViewStore(path)
    found = again.open(attrs.evolve(ORIGIN, **change))
    assert found is not None
    assert reason in found
    assert (again.count(), again.positions(), again.is_built) == (0, {}, False)
    again.close()


def test_open_with_the_same_origin_keeps_rows_and_times(store: ViewStore, path: Path) -> None:
    store.close()
    again = ViewStore(path)
    assert again.open(ORIGIN) is None
    assert again.get(RowKey(b"k")) == Row(RowKey(b"k"), b"v", 1)
    assert (again.is_built, again.current_at_ms, again.positions()) == (True, 77, {0: 1})
    again.close()


@pytest.mark.parametrize("damage", [b"", b"not a database" * 100])
def test_open_of_a_damaged_file_removes_rows(store: ViewStore, path: Path, damage: bytes) -> None:
    store.close()
    path.write_bytes(damage)
    again = ViewStore(path)
    reason = again.open(ORIGIN)
    assert (reason is None) is (damage == b"")
    assert again.count() == 0
    again.apply(0, 0, 1, [Change(RowKey(b"k"), b"v", 1)])
    assert again.count() == 1
    again.close()


def test_open_of_another_version_removes_rows(store: ViewStore, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    again = ViewStore(path)
    assert "it has version 9" in (again.open(ORIGIN) or "")
    assert again.count() == 0
    again.close()


def test_second_process_is_refused(store: ViewStore, path: Path) -> None:
    with pytest.raises(ViewStoreError, match="in use by another process"):
        ViewStore(path)
    store.close()
    ViewStore(path).close()


def test_range_reads_one_moment(store: ViewStore) -> None:
    store.apply(0, 1, 2001, [Change(RowKey(b"%05d" % n), b"old", n) for n in range(2000)])
    rows = store.range()
    first = next(rows)
    store.apply(0, 2001, 4001, [Change(RowKey(b"%05d" % n), b"new", n) for n in range(2000)])
    assert {row.value for row in (first, *rows)} == {b"old", b"v"}


def test_windows_older_than_retention_are_removed(path: Path) -> None:
    store = ViewStore(path, retention_ms=100)
    store.open(ORIGIN)
    windows = [Change(RowKey(b"k", start, start + 10), b"v", start) for start in (0, 50, 90)]
    store.apply(0, 0, 3, windows)
    store.apply(0, 3, 4, [Change(RowKey(b"k", 150, 160), b"v", 155)])
    assert [row.key.start_ms for row in store.windows(b"k", None, None)] == [50, 90, 150]
    store.apply(0, 4, 5, [Change(RowKey(b"j"), b"v", 10**12)])
    assert store.count() == 1, "rows without a window stay"
    store.close()
