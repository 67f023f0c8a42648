"""The bytes of a state: round trips, refusals, and kernels that continue from stored states."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState, TaskState
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, StateMismatchError
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.paged_stores import DueQueue
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.sliding_windows import SlidingWindowAggregate
from barnabas.pipeline.streams.kernels.state_codec import decode, encode
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, Deduplicate, counting
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from barnabas.pipeline.streams.kernels.stream_table_joins import StreamTableJoin
from barnabas.pipeline.streams.kernels.suppression import until_time_limit, until_window_closes
from barnabas.pipeline.streams.kernels.table_joins import JoinKind, TableJoin
from barnabas.pipeline.streams.kernels.table_kernels import TableSource
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from tests.pipeline.streams.kernels.kernel_runs import pages_of, rows, run

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
)
keys = st.binary() | st.text() | st.integers(-(2**63), 2**64 - 1)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=8
)
entries = st.lists(scalars, max_size=2) | st.dictionaries(keys, scalars, max_size=2)
stores = st.dictionaries(
    st.text(max_size=3), st.dictionaries(keys, entries, max_size=2), max_size=2
)
task_states = st.builds(TaskState, st.integers(-1, 2**62), stores)
tasks = st.dictionaries(st.integers(0, 100), task_states, max_size=2)
parts = st.dictionaries(st.text(max_size=3), st.builds(BucketState, tasks), max_size=1)
states = st.builds(BucketState, tasks, parts)


@settings(deadline=None)
@given(plain)
def test_plain_data_comes_back_as_it_was(value: object) -> None:
    found = unpack(pack(value))
    assert found == value
    assert type(found) is type(value)


@settings(deadline=None)
@given(states)
def test_state_comes_back_as_it_was(state: BucketState) -> None:
    signature = TableSource().signature
    assert decode(encode(state, signature), signature) == state


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_state_of_any_bytes_is_refused(blob: bytes) -> None:
    with pytest.raises(StateMismatchError):
        decode(blob, TableSource().signature)


@settings(deadline=None)
@given(states, st.data())
def test_state_that_is_cut_is_refused(state: BucketState, data: st.DataObject) -> None:
    blob = encode(state, TableSource().signature)
    end = data.draw(st.integers(0, len(blob) - 1))
    with pytest.raises(StateMismatchError, match="damaged"):
        decode(blob[:end], TableSource().signature)


def earlier_blob(state: BucketState, signature: Mapping[str, Any]) -> bytes:
    """The bytes of a state in the format of the releases before pages."""
    return pack([1, dict(signature), earlier_content(state)])


def earlier_content(state: BucketState) -> list[Any]:
    tasks: list[Any] = []
    for number, task in state.tasks.items():
        stores: dict[str, Any] = {}
        for name, store in task.stores.items():
            if isinstance(store, DueQueue):
                heap = sorted(store.entries())
                stores.setdefault("heaps", {})[name.removeprefix("due ")] = heap
            else:
                stores[name] = dict(store.items())
        tasks.append([number, task.time_ms, stores])
    return [tasks, {name: earlier_content(part) for name, part in state.parts.items()}]


def sum_of(gap_ms: int) -> SessionWindowAggregate:
    return SessionWindowAggregate(gap_ms, counting(), lambda key, one, two: one + two)


@pytest.mark.parametrize(
    ("stored", "wanted", "difference"),
    [
        (sum_of(5), sum_of(6), "gap_ms is 5 in the state and 6 in the query"),
        (
            sum_of(5),
            TableSource(),
            "gap_ms is 5 in the state and None in the query; "
            "kernel is 'session-windows' in the state and 'table' in the query",
        ),
        (Chain([TableSource()]), Chain([TableSource()] * 2), "1 is None in the state"),
    ],
)
def test_state_of_another_kernel_is_refused_with_the_difference(
    stored: Kernel, wanted: Kernel, difference: str
) -> None:
    blob = encode(BucketState(), stored.signature)
    with pytest.raises(StateMismatchError, match="is not one of") as raised:
        decode(blob, wanted.signature)
    assert difference in str(raised.value)


def test_state_of_a_later_version_is_refused() -> None:
    signature = dict(TableSource().signature)
    blob = encode(BucketState(), {**signature, "version": 2})
    with pytest.raises(StateMismatchError, match="version is 2 in the state and 1 in the query"):
        decode(blob, signature)


def test_state_of_a_later_format_is_refused() -> None:
    with pytest.raises(
        StateMismatchError, match="format 3, and this release reads the formats 1 and 2"
    ):
        decode(pack([3, {}, []]), TableSource().signature)


def test_state_with_an_object_is_refused() -> None:
    state = BucketState()
    state.task(0).store("table")[b"a"] = object()
    with pytest.raises(StateMismatchError, match="the state of table cannot be stored: object is"):
        encode(state, TableSource().signature)


def test_plain_data_reads_no_code() -> None:
    with pytest.raises(ValueError, match="extension type 77"):
        unpack(b"\xd4\x4d\x00")
    with pytest.raises(ValueError, match="not a decimal"):
        unpack(b"\xd4\x02x")


def test_plain_data_keeps_large_numbers() -> None:
    values = [2**64, -(2**63) - 1, 10**40, Decimal("1.10")]
    assert [str(value) for value in unpack(pack(values))] == [str(value) for value in values]


collecting = Aggregation(lambda key, value, found: [*found, value], list)
BOTH = frozenset({Side.LEFT, Side.RIGHT})
MANY = [b"%d" % number for number in range(8)]
SIGNATURE = {"kernel": "any"}
KERNELS: list[Kernel] = [
    TimeWindowAggregate(TimeWindows(9, 4, 6), collecting),
    SessionWindowAggregate(4, collecting, lambda key, one, two: one + two, 6),
    SlidingWindowAggregate(6, collecting, 6),
    StreamJoin(lambda key, left, right: [left, right], JoinWindows(4, 6, 3), BOTH),
    StreamTableJoin(lambda key, left, right: [left, right]),
    TableJoin(lambda key, left, right: [left, right], JoinKind.OUTER),
    Deduplicate(4),
    Chain([TableSource(), until_time_limit(5)]),
    Chain([TimeWindowAggregate(TimeWindows(9, 9), collecting), until_window_closes(3)]),
]


@pytest.mark.parametrize("page_entries", [1, 2, 16])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.signature["kernel"])
@settings(deadline=None)
@given(taken=rows(sides=BOTH, until_ms=60, keys=MANY), cut=st.integers(0, 30))
def test_kernel_continues_from_a_stored_state(
    kernel: Kernel, page_entries: int, taken: list[Row], cut: int
) -> None:
    signature = kernel.signature
    state = BucketState()
    with pages_of(page_entries):
        found = run(kernel, taken[:cut], state)
        found += run(kernel, taken[cut:], decode(encode(state, signature), signature))
    assert found == run(kernel, taken)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.signature["kernel"])
@settings(deadline=None)
@given(taken=rows(sides=BOTH, until_ms=60, keys=MANY), cut=st.integers(0, 30))
def test_kernel_continues_from_a_state_of_the_earlier_format(
    kernel: Kernel, taken: list[Row], cut: int
) -> None:
    signature = kernel.signature
    state = BucketState()
    found = run(kernel, taken[:cut], state)
    with pages_of(2):
        carried = decode(earlier_blob(state, signature), signature)
        assert carried.is_older
        assert carried == state
        stored = encode(carried, signature)
        found += run(kernel, taken[cut:], decode(stored, signature))
    assert not decode(stored, signature).is_older
    assert found == run(kernel, taken)


def test_users_store_of_the_earlier_format_keeps_its_order() -> None:
    state = BucketState()
    entries = {f"{number}": number for number in reversed(range(200))}
    state.task(3).user_store("mine").update(entries)
    carried = decode(earlier_blob(state, SIGNATURE), SIGNATURE)
    stored = decode(encode(carried, SIGNATURE), SIGNATURE).task(3).user_store("mine")
    assert list(stored.items()) == list(entries.items())


def test_times_alone_make_no_other_stores() -> None:
    state = BucketState()
    state.task(0).store("table").update({b"%d" % number: number for number in range(1_000)})
    state.part("1").task(2).queue("closing").push([1, b"a"])
    blob = encode(state, SIGNATURE)
    later = decode(blob, SIGNATURE)
    later.task(0).time_ms = later.task(7).time_ms = 99
    later.task(7).store("table")
    assert later.task(0).store("table")[b"5"] == 5
    assert later.part("1").task(2).queue("closing").first == [1, b"a"]
    assert later.has_stores_of(decode(blob, SIGNATURE))
    later.task(0).store("table")[b"5"] = 6
    assert not later.has_stores_of(decode(blob, SIGNATURE))
    later.task(0).store("table")[b"5"] = 5
    later.part("1").task(2).queue("closing").push([1, b"a"])
    assert not later.has_stores_of(decode(blob, SIGNATURE))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.signature["kernel"])
@settings(deadline=None)
@given(taken=rows(sides=BOTH, until_ms=60), cut=st.integers(0, 30))
def test_kernel_repeats_a_step_from_the_stored_state(kernel, taken, cut) -> None:
    """As Spark repeats a micro-batch: the same rows and state, the same output and state."""
    signature = kernel.signature
    state = BucketState()
    run(kernel, taken[:cut], state)
    blob = encode(state, signature)
    results = []
    for _ in range(2):
        repeated = decode(blob, signature)
        found = run(kernel, taken[cut:], repeated)
        results.append((found, encode(repeated, signature)))
    assert results[0] == results[1]
