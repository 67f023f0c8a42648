"""Stores in pages, against a dict and a heap: what they hold, how pages split, join and stay."""

import heapq
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.pipeline.streams.kernels import paged_stores
from barnabas.pipeline.streams.kernels.paged_stores import (
    DamagedPageError,
    DueQueue,
    OrderedStore,
    PagedStore,
    plain_of,
    store_of,
)
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack
from barnabas.pipeline.streams.kernels.state_pages import PAGE_BYTES, PAGE_ENTRIES, Pages
from tests.pipeline.streams.kernels.kernel_runs import pages_of

keys = st.binary(max_size=2) | st.text(max_size=1) | st.integers(-50, 50)
values = st.integers() | st.text(max_size=40) | st.lists(st.integers(), max_size=5)
LIMITS = [(1, 4_096), (3, 4_096), (16, 60), (16, 4_096)]


def stored(store: Any) -> Any:
    return store_of(unpack(pack(plain_of(store))))


class Stores(RuleBasedStateMachine):
    """A store and a dict take the same calls, and the store is written and read in between."""

    is_ordered = False
    hashes: Any = None

    @initialize(limits=st.sampled_from(LIMITS))
    def begin(self, limits: tuple[int, int]) -> None:
        self._context = pages_of(*limits)
        self._context.__enter__()
        self._hash = paged_stores.place_of
        if self.hashes is not None:
            paged_stores.place_of = self.hashes
        self.model: dict[Any, Any] = {}
        self.store: Any = OrderedStore.of({}) if self.is_ordered else PagedStore(Pages())

    def teardown(self) -> None:
        if hasattr(self, "_context"):
            paged_stores.place_of = self._hash
            self._context.__exit__(None, None, None)

    @rule(key=keys, value=values)
    def put(self, key: Any, value: Any) -> None:
        self.model[key] = self.store[key] = value

    @rule(entries=st.dictionaries(keys, values, max_size=20))
    def put_many(self, entries: dict[Any, Any]) -> None:
        self.model.update(entries)
        self.store.update(entries)

    @rule(key=keys)
    def delete(self, key: Any) -> None:
        assert (key in self.store) == (key in self.model)
        if key in self.model:
            del self.model[key], self.store[key]
        else:
            with pytest.raises(KeyError):
                del self.store[key]

    @rule(key=keys, default=values)
    def pop(self, key: Any, default: Any) -> None:
        assert self.store.get(key, default) == self.model.get(key, default)
        assert self.store.pop(key, default) == self.model.pop(key, default)

    @rule(key=keys)
    def change_inside(self, key: Any) -> None:
        self.model.setdefault(key, [])
        self.store.setdefault(key, [])
        if isinstance(self.model[key], list):
            # A value may be in the model and in the store as one list.
            self.model[key] = [*self.model[key], 1]
            self.store[key] = [*self.store[key], 1]

    @rule()
    def append_inside(self) -> None:
        for key, value in list(self.model.items()):
            if isinstance(value, list):
                self.model[key] = [*value, 7]
                if self.store[key] is value:
                    self.store[key] = [*value]
                self.store[key].append(7)

    @rule(share=st.integers(2, 5))
    def sweep(self, share: int) -> None:
        gone = [key for number, key in enumerate(self.model) if number % share]
        for key in gone:
            del self.model[key], self.store[key]

    @rule()
    def clear(self) -> None:
        self.model.clear()
        self.store.clear()

    @rule()
    def write_and_read(self) -> None:
        self.store = stored(self.store)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            assert len(self.store) == len(self.model)

    @rule()
    def compare(self) -> None:
        assert self.store == self.model
        assert set(map(repr, self.store.values())) == set(map(repr, self.model.values()))
        if self.is_ordered:
            assert list(self.store) == list(self.model)
            assert list(self.store.items()) == list(self.model.items())
            assert list(reversed(self.store)) == list(reversed(self.model))
            assert repr(self.store) == repr(self.model)

    @rule()
    def pop_last(self) -> None:
        if self.is_ordered and self.model:
            assert self.store.popitem() == self.model.popitem()


class OrderedStores(Stores):
    """The order is that of a dict."""

    is_ordered = True


class SkewedStores(Stores):
    """Three places for all keys, so that pages cannot be cut between most of them."""

    hashes = staticmethod(lambda key: len(repr(key)) % 3)


Stores.TestCase.settings = OrderedStores.TestCase.settings = settings(deadline=None)
SkewedStores.TestCase.settings = settings(deadline=None)
TestStores = Stores.TestCase
TestOrderedStores = OrderedStores.TestCase
TestSkewedStores = SkewedStores.TestCase


class Queues(RuleBasedStateMachine):
    """A queue and a heap take the same calls."""

    @initialize(limits=st.sampled_from(LIMITS))
    def begin(self, limits: tuple[int, int]) -> None:
        self._context = pages_of(*limits)
        self._context.__enter__()
        self.model: list[Any] = []
        self.queue: Any = DueQueue.of(())

    def teardown(self) -> None:
        if hasattr(self, "_context"):
            self._context.__exit__(None, None, None)

    @rule(entries=st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=2)), max_size=20))
    def push(self, entries: list[Any]) -> None:
        for entry in entries:
            self.queue.push(list(entry))
            heapq.heappush(self.model, list(entry))

    @rule(most=st.integers(1, 30))
    def pop(self, most: int) -> None:
        for _ in range(most):
            if not self.model:
                with pytest.raises(IndexError):
                    self.queue.pop()
                return
            assert self.queue.first == self.model[0]
            assert self.queue.pop() == heapq.heappop(self.model)

    @rule()
    def write_and_read(self) -> None:
        self.queue = stored(self.queue)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            assert len(self.queue) == len(self.model)
            assert bool(self.queue) == bool(self.model)


Queues.TestCase.settings = settings(deadline=None)
TestQueues = Queues.TestCase


def large(count: int = 10_000) -> Any:
    return stored({b"user-%08d" % number: [b"1", 0] for number in range(count)})


def test_a_large_store_opens_the_pages_of_its_calls() -> None:
    store = large()
    pages = len(store.pages())
    assert pages >= 10_000 // PAGE_ENTRIES
    for number in range(10):
        store[b"user-%08d" % number] = [b"2", 0]
    assert store.get(b"nobody") is None
    assert store.opened <= 11
    assert len(store) == 10_000
    assert store.opened <= 11


def test_pages_that_did_not_change_keep_their_bytes() -> None:
    store = large()
    before = store.pages()
    store[b"user-00000007"] = [b"2", 0]
    assert store[b"user-00000008"] == [b"1", 0]
    after = store.pages()
    changed = [
        index for index in range(len(before)) if before.content(index) != after.content(index)
    ]
    assert len(changed) == 1
    assert before.bounds == after.bounds


def test_a_store_that_was_only_read_has_the_same_bytes() -> None:
    store = large()
    before = pack(plain_of(store))
    assert sum(count for _, count in store.values()) == 0
    assert store.opened == len(store.pages())
    assert pack(plain_of(store)) == before


@pytest.mark.parametrize("size", [1, 100, 1_000, 10_000])
def test_pages_have_limits_while_a_store_grows_and_shrinks(size: int) -> None:
    numbers = random.Random(size)
    store: Any = stored({})
    present: list[bytes] = []
    for _ in range(20):
        for _ in range(200):
            store[key := b"%d" % numbers.randrange(10**9)] = bytes(size)
            present.append(key)
        store = stored(store)
        limits(stored_pages(store))
    numbers.shuffle(present)
    most = len(stored_pages(store))
    while len(present) > 40:
        for key in present[:200]:
            store.pop(key, None)
        del present[:200]
        store = stored(store)
        limits(stored_pages(store))
    assert len(stored_pages(store)) <= max(1, most // 8)


def stored_pages(store: Any) -> Pages:
    return store_pages(plain_of(store))


def store_pages(plain: list[Any]) -> Pages:
    return Pages(*plain[1:5])


def limits(pages: Pages) -> None:
    assert pages.bounds == sorted(set(pages.bounds))
    for count, size in zip(pages.counts, pages.sizes, strict=True):
        assert 0 < count <= PAGE_ENTRIES
        assert size <= PAGE_BYTES or count == 1


def test_a_queue_with_nothing_due_opens_its_first_page() -> None:
    queue = stored(DueQueue.of([[number // 500, b"%d" % number] for number in range(10_000)]))
    assert queue.first == [0, b"0"]
    queue.push([3, b"77"])
    assert queue.opened <= 2
    assert len(queue) == 10_001


def test_equal_keys_have_equal_places() -> None:
    equal = [(1, 1.0), (1, True), (1, Decimal(1)), (0.5, Decimal("0.5")), (-3, -3.0)]
    for one, other in equal:
        assert one == other
        assert paged_stores.place_of(one) == paged_stores.place_of(other)
    assert paged_stores.place_of(None) == paged_stores.place_of(None)
    assert paged_stores.place_of(float("inf")) == paged_stores.place_of(Decimal("inf"))


def test_places_stay_in_the_release_after() -> None:
    assert paged_stores.place_of(b"user-1") == 2_755_638_957
    assert paged_stores.place_of("user-1") == 2_755_638_957
    assert paged_stores.place_of(2**33 + 5) == 5


def test_a_damaged_page_is_refused_when_it_is_opened() -> None:
    pages = large().pages()
    broken = Pages(pages.bounds, pages.counts, pages.sizes, b"\xc1" * len(pages.data))
    with pytest.raises(DamagedPageError, match="page 0 of a store"):
        list(PagedStore(broken))


@pytest.mark.parametrize(
    "plain",
    [
        ["map", [0], [1], [2], b"\x01"],
        ["map", [0], [1, 1], [1], b"\x01"],
        ["heap", [], [], [], b""],
    ],
)
def test_stores_whose_pages_do_not_match_their_bytes_are_refused(plain: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"pages|unknown"):
        store_of(plain)


def test_a_store_that_changes_while_it_is_iterated_fails_as_a_dict_does() -> None:
    store = OrderedStore.of({"a": 1, "b": 2})

    def removing() -> Iterator[Any]:
        for key in store:
            yield store.pop(key)

    with pytest.raises(RuntimeError, match="changed its size"):
        list(removing())


def test_an_entry_before_those_that_were_taken_comes_first() -> None:
    queue = stored(DueQueue.of([[number, b"a"] for number in range(100)]))
    taken = [queue.pop()[0] for _ in range(60)]
    assert taken == list(range(60))
    queue.push([7, b"b"])
    assert [queue.pop(), queue.pop()] == [[7, b"b"], [60, b"a"]]
