"""Two tables joined by a key that the left value contains (KIP-213), in three kernels.

A row of the left table subscribes to its foreign key. The lookup keeps subscriptions beside the
right table and answers them. The response joins an answer with the left value, unless that has
changed since. Rows between the kernels have bytes as values:

    left table -> ForeignKeySubscribe, by primary key
               -> ForeignKeyLookup with the right table, by foreign key
               -> ForeignKeyRespond, by primary key

The left rows themselves pass the lookup on their way to the response, so that the left table is
read once: two readers of a topic may be at different offsets in one micro-batch.
"""

import enum
import hashlib
from collections.abc import Callable
from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Joiner, Row, Side, Value
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY


class _Request(enum.IntEnum):
    """A request of a change of the left table to the lookup."""

    REMOVE = 0
    """To forget a subscription."""
    REMOVE_AND_ANSWER_NONE = 1
    ANSWER = 2
    """To keep a subscription, and to answer it."""
    PASS = 3
    """To pass the row on to the response; its key is the primary key."""


def _digest(value: Value) -> bytes | None:
    return None if value is None else hashlib.blake2b(pack(value), digest_size=16).digest()


@attrs.frozen
class ForeignKeySubscribe(RowKernel):
    """The left table's rows, and their subscriptions, whose key is the foreign key."""

    name: ClassVar[str] = "foreign-key-subscribe"
    has_one_task: ClassVar[bool] = True
    foreign_key: Callable[[bytes, Value], bytes | None]
    is_left: bool = False

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the row, then the subscriptions that its change asks for."""
        if row.key is None:
            return NO_KEY
        table = task.store("table")
        old = table.pop(row.key, None)
        if row.value is not None:
            table[row.key] = row.value
        if row.value is not None or old is not None:
            passed = pack([int(_Request.PASS), row.key, row.value])
            yield row._replace(value=passed, side=Side.LEFT, old=None)
        before = None if old is None else self.foreign_key(row.key, old)
        after = None if row.value is None else self.foreign_key(row.key, row.value)
        for foreign_key, request in self._requests(row, old, before, after):
            message = pack([int(request), row.key, _digest(row.value)])
            yield row._replace(key=foreign_key, value=message, side=Side.LEFT, old=None)
        if row.value is not None and after is None and not self.is_left:
            return "no foreign key"
        return None

    def _requests(
        self, row: Row, old: Value, before: bytes | None, after: bytes | None
    ) -> list[tuple[bytes | None, _Request]]:
        """Return what a change asks for: always an answer, since it makes earlier ones stale."""
        if self.is_left:
            if old is None and row.value is None:
                return []
            removed = [] if before is None or before == after else [(before, _Request.REMOVE)]
            return [*removed, (after, _Request.ANSWER)]
        if after is None:
            is_unknown = old is None and row.value is None
            return [] if is_unknown else [(before, _Request.REMOVE_AND_ANSWER_NONE)]
        removed = [] if before is None or before == after else [(before, _Request.REMOVE)]
        return [*removed, (after, _Request.ANSWER)]


@attrs.frozen
class ForeignKeyLookup(RowKernel):
    """Answers to subscriptions (left) from a table (right), with the primary key as key.

    Left rows pass; answers are on the right side.
    """

    name: ClassVar[str] = "foreign-key-lookup"
    first: ClassVar[Side] = Side.RIGHT
    has_one_task: ClassVar[bool] = True

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the answer to a subscription, or to all subscriptions of a changed key."""
        if row.side is Side.LEFT:
            yield from self._subscribe(row, task)
            return None
        if row.key is None:
            return NO_KEY
        table = task.store("table")
        if row.value is None:
            table.pop(row.key, None)
        else:
            table[row.key] = [row.value, row.timestamp_ms]
        subscribers: dict[bytes, Value] = task.store("subscriptions").get(row.key, {})
        for primary_key in sorted(subscribers):
            yield _answer(row, primary_key, subscribers[primary_key], row.value)
        return None

    def _subscribe(self, row: Row, task: TaskState) -> RowSteps:
        number, primary_key, content = unpack(row.value)
        request, digest = _Request(number), content
        if request is _Request.PASS:
            yield row._replace(value=content)
            return None
        value, value_ms = None, UNKNOWN_MS
        if row.key is not None:
            value, value_ms = task.store("table").get(row.key, (None, UNKNOWN_MS))
            self._keep(row.key, request, primary_key, digest, task)
        answered = row._replace(timestamp_ms=max(row.timestamp_ms, value_ms))
        if request is _Request.REMOVE_AND_ANSWER_NONE:
            yield _answer(answered, primary_key, digest, None)
        elif request is _Request.ANSWER:
            yield _answer(answered, primary_key, digest, value)
        return None

    def _keep(
        self,
        key: bytes,
        request: _Request,
        primary_key: bytes,
        digest: bytes | None,
        task: TaskState,
    ) -> None:
        subscriptions = task.store("subscriptions")
        of_key: dict[bytes, Value] = subscriptions.setdefault(key, {})
        if request in (_Request.REMOVE, _Request.REMOVE_AND_ANSWER_NONE):
            of_key.pop(primary_key, None)
        else:
            of_key[primary_key] = digest
        if not of_key:
            del subscriptions[key]


def _answer(row: Row, primary_key: bytes, digest: bytes | None, value: Value) -> Row:
    message = pack([digest, value])
    return row._replace(key=primary_key, value=message, side=Side.RIGHT, old=None)


@attrs.frozen
class ForeignKeyRespond(RowKernel):
    """Results of answers (right) and of the left table, whose rows yield nothing themselves.

    An answer to a value that has changed since is dropped: another answer follows.
    """

    name: ClassVar[str] = "foreign-key-respond"
    has_one_task: ClassVar[bool] = True
    joiner: Joiner
    is_left: bool = False

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the result of an answer, or keep the left row."""
        if row.key is None:
            return NO_KEY
        table = task.store("table")
        if row.side is Side.LEFT:
            if row.value is None:
                table.pop(row.key, None)
            else:
                table[row.key] = row.value
            return None
        digest, found = unpack(row.value)
        value = table.get(row.key)
        if digest != _digest(value):
            return "stale answer"
        has_result = value is not None and (found is not None or self.is_left)
        result = self.joiner(row.key, value, found) if has_result else None
        yield row._replace(value=result, side=Side.LEFT)
        return None
