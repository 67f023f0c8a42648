"""A view that a thread keeps up to date, and the queries on it.

Queries read SQLite in the thread of the caller; none waits for the feed. They are refused until the
view has read its topic once: an absent row then means that the topic has none.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self

import attrs
import trio

from barnabas.client import ClientConfig, open_client
from barnabas.pipeline.views.view_feed import FeedFigures, ViewFeed, first_error
from barnabas.pipeline.views.view_keys import RowKey, ViewKeys
from barnabas.pipeline.views.view_store import Row, ViewStore, ViewStoreError

logger = logging.getLogger(__name__)

_WAIT_S: Final = 60.0


class Codec(Protocol):
    """Converts between the bytes of a topic and values of Python."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises ValueError."""
        ...

    def decode(self, data: bytes) -> Any:
        """Return the value of bytes. Raises ValueError."""
        ...


class ViewNotReadyError(Exception):
    """The view has not read its topic yet, or it reads it again; the message has its progress."""


class ViewFailedError(Exception):
    """The view has ended."""


@attrs.frozen
class ViewRow:
    """A row of a view."""

    key: Any
    value: Any
    timestamp: int
    """The time of the record, in ms."""
    window: tuple[int, int] | None = None
    """Start and end of the window in ms, None in a table without windows."""


@attrs.frozen
class ViewSpec:
    """A topic, the form of its records, and the file for its rows."""

    topic: str
    path: Path
    key: Codec
    value: Codec
    keys: ViewKeys = attrs.field(factory=ViewKeys)
    retention_ms: int | None = None
    """Windows that end before the stream's time by more than this are removed; None keeps all."""


class LiveView:
    """A view of a topic. `start` begins to read; queries may be made from any thread."""

    def __init__(self, spec: ViewSpec, client: ClientConfig) -> None:
        """Open the view's file. Raises ViewStoreError when another process has it."""
        self.spec = spec
        self._client = client
        self._store = ViewStore(spec.path, spec.retention_ms)
        self._feed: ViewFeed | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._run_thread, name=f"view {spec.topic}", daemon=True
        )

    @classmethod
    def open(cls, spec: ViewSpec, client: Mapping[str, str]) -> Self:
        """Return a view that runs. Raises ViewStoreError, or ConfigError for bad properties."""
        view = cls(spec, ClientConfig.from_properties(client))
        view.start()
        return view

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start to read the topic."""
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Stop reading and close the file; the rows stay for the next start."""
        self._is_stopped = True
        if self._token is not None and self._thread.is_alive():
            self._token.run_sync_soon(self._scope.cancel)
            self._thread.join()
        self._store.close()

    @property
    def figures(self) -> FeedFigures:
        """Return what the view has read since it was started."""
        return FeedFigures() if self._feed is None else self._feed.figures

    @property
    def is_built(self) -> bool:
        """True when queries are answered."""
        return self._store.is_built

    @property
    def current_at_ms(self) -> int:
        """A recent time at which the view had all that its topic had; it is stored now and then."""
        return self._store.current_at_ms

    @property
    def failure(self) -> BaseException | None:
        """Why the view ended by itself, or None."""
        return self._failure

    def is_running(self) -> bool:
        """True until the view is closed or fails."""
        return not self._is_stopped and self._failure is None

    def wait_built(self, timeout_s: float = _WAIT_S) -> Self:
        """Return the view once it answers queries. Raises ViewNotReadyError, ViewFailedError."""
        self._ask(lambda feed: feed.built(), timeout_s)
        return self

    def catch_up(self, timeout_s: float = _WAIT_S) -> Self:
        """Return the view once it has what its topic has now: what was committed is seen.

        Raises ViewNotReadyError when the time is over, ViewFailedError.
        """
        self._ask(lambda feed: feed.catch_up(), timeout_s)
        return self

    def get(self, key: Any) -> Any:
        """Return the value of a key, None when the table has none. For tables without windows."""
        found = self.get_row(key)
        return None if found is None else found.value

    def get_row(self, key: Any, window: tuple[int, int] | None = None) -> ViewRow | None:
        """Return a row, by key and window. Raises ValueError for a key of another type."""
        self._check_ready()
        if self.spec.keys.is_windowed is not (window is not None):
            raise ValueError(
                f"the keys of {self.spec.topic} have windows: use windows() or give the window"
                if window is None
                else f"the keys of {self.spec.topic} have no windows"
            )
        found = self._store.get(RowKey(self.spec.key.encode(key), *(window or (0, 0))))
        return None if found is None else self._row(found)

    def windows(
        self, key: Any, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[ViewRow]:
        """Return a key's windows that start between two times, both included, in their order."""
        self._check_ready()
        found = self._store.windows(self.spec.key.encode(key), from_ms, to_ms)
        return [self._row(each) for each in found]

    def range(self, low: Any = None, high: Any = None) -> Iterator[ViewRow]:
        """Iterate over the rows of keys from `low` to `high`, both included; None is an open side.

        The order is that of the keys' bytes, as in Kafka Streams: text by code points, and negative
        numbers after the positive ones. The rows are those of one moment.
        """
        self._check_ready()
        first, last = self._bound(low), self._bound(high)
        if first is not None and last is not None and first > last:
            raise ValueError(f"the bytes of {low!r} sort after those of {high!r}")
        return map(self._row, self._store.range(first, last))

    def all(self) -> Iterator[ViewRow]:
        """Iterate over all rows, in the order of the keys' bytes."""
        return self.range()

    def page(
        self, low: bytes | None, high: bytes | None, after: RowKey | None
    ) -> Iterator[tuple[RowKey, ViewRow]]:
        """Iterate over rows by the bytes of keys, after a row; for pages of a client."""
        self._check_ready()
        return ((row.key, self._row(row)) for row in self._store.range(low, high, after))

    def count(self) -> int:
        """Return the number of rows; the time it takes grows with them."""
        self._check_ready()
        return self._store.count()

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self.spec.key.encode(key)

    def _row(self, row: Row) -> ViewRow:
        key, *window = row.key
        return ViewRow(
            self.spec.key.decode(key),
            self.spec.value.decode(row.value),
            row.timestamp,
            (window[0], window[1]) if self.spec.keys.is_windowed else None,
        )

    def _check_ready(self) -> None:
        if self._is_stopped:
            raise ViewFailedError(f"the view of {self.spec.topic} is closed")
        self._check_failure()
        if not self._store.is_built:
            figures = self.figures
            read, end = sum(figures.positions.values()), sum(figures.ends.values())
            because = f" again, because {figures.rebuilt_because}" if figures.rebuilds else ""
            raise ViewNotReadyError(
                f"the view of {self.spec.topic} reads its topic{because}: at {read} of {end}"
            )

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise ViewFailedError(
                f"the view of {self.spec.topic} ended: {self._failure}"
            ) from self._failure

    def _ask(self, what: Callable[[ViewFeed], Awaitable[None]], timeout_s: float) -> None:
        """Run a call of the feed in its thread; wait for its end."""
        deadline = time.monotonic() + timeout_s
        self._check_failure()
        feed, token = self._feed, self._token
        if self._is_stopped or feed is None or token is None:
            raise ViewFailedError(f"the view of {self.spec.topic} is not running")
        try:
            reached = trio.from_thread.run(
                partial(self._within, what, feed, deadline), trio_token=token
            )
        except (trio.RunFinishedError, trio.Cancelled):
            reached = False
        self._check_failure()
        if not reached:
            self._check_ready()
            raise ViewNotReadyError(
                f"the view of {self.spec.topic} did not catch up in {timeout_s:g} s"
            )

    @staticmethod
    async def _within(
        what: Callable[[ViewFeed], Awaitable[None]], feed: ViewFeed, deadline: float
    ) -> bool:
        """Return False when the deadline passes before the call ends."""
        with trio.move_on_after(max(0.0, deadline - time.monotonic())):
            await what(feed)
            return True
        return False

    def _run_thread(self) -> None:
        try:
            trio.run(self._run)
        except BaseExceptionGroup as group:
            self._failed(first_error(group))
        except BaseException as error:
            self._failed(error)
        finally:
            self._started.set()

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        logger.error("view failed topic=%s error=%s", self.spec.topic, error)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with open_client(self._client) as client:
                self._feed = ViewFeed(client, self._store, self.spec.topic, self.spec.keys)
                self._started.set()
                await self._feed.run()


__all__ = [
    "Codec",
    "LiveView",
    "ViewFailedError",
    "ViewNotReadyError",
    "ViewRow",
    "ViewSpec",
    "ViewStoreError",
]
