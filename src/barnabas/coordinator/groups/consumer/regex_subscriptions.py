"""Subscriptions by regular expression, in an engine that is linear in its input (RE2).

Matching an expression with all topics of a large cluster takes long, so a shard does not do it. It
asks for it with an effect, `ResolutionRequest`; the shell advances a `Matching` through the topics
a few at a time and gives the shard the result. Kafka: TopicRegexResolver in an executor's thread,
on re2j, which also takes RE2's syntax.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.protocol.errors import ErrorCode, KafkaError


@attrs.frozen
class Resolved:
    """The topics that an expression matched at a version of the metadata, and when (ms)."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


@attrs.frozen
class ResolutionRequest:
    """An effect: find the topics that a group's expressions match now, and that `caller` may see.

    `GroupShard.regexes_resolved` takes the answer.
    """

    group_id: str
    regexes: frozenset[str]
    caller: Caller = attrs.field(factory=Caller)


class Matching:
    """One expression on its way through the cluster's topics; it matches complete names.

    An invalid expression matches none.
    """

    def __init__(self, regex: str, topics: Iterable[str]) -> None:
        self._topics = iter(topics)
        self._matched: list[str] = []
        try:
            self._pattern = _compile(regex)
        except _re2().error:
            self._topics = iter(())

    def advance(self, count: int) -> bool:
        """Match the given number of further topics; return False when none were left."""
        names = list(islice(self._topics, count))
        self._matched += [name for name in names if self._pattern.fullmatch(name)]
        return bool(names)

    @property
    def matched(self) -> frozenset[str]:
        """Return the topics that matched so far."""
        return frozenset(self._matched)


def validate(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION, with the reason, for an invalid expression."""
    try:
        _compile(regex)
    except _re2().error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}.",
        ) from error


def _compile(regex: str) -> Any:
    engine = _re2()
    options = engine.Options()
    options.log_errors = False
    return engine.compile(regex, options)


def _re2() -> Any:
    """Import the engine with the first expression."""
    import re2

    return re2
