"""Subscriptions by regular expression, in an engine that is linear in its input (RE2).

Kafka: TopicRegexResolver, on re2j, which takes RE2's syntax as well.
"""

from collections.abc import Iterable
from typing import Any

import attrs

from barnabas.protocol.errors import ErrorCode, KafkaError


@attrs.frozen
class Resolved:
    """The topics that an expression matched at a version of the metadata, and when (ms)."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


def validate(regex: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION with what is wrong."""
    try:
        _compile(regex)
    except _re2().error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}.",
        ) from error


def resolve(regexes: Iterable[str], topics: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics whose whole name each expression matches; none for one that does not parse."""
    names = list(topics)
    resolved: dict[str, frozenset[str]] = {}
    for regex in regexes:
        try:
            pattern = _compile(regex)
        except _re2().error:
            resolved[regex] = frozenset()
        else:
            resolved[regex] = frozenset(name for name in names if pattern.fullmatch(name))
    return resolved


def _compile(regex: str) -> Any:
    engine = _re2()
    options = engine.Options()
    options.log_errors = False
    return engine.compile(regex, options)


def _re2() -> Any:
    """The engine is imported when the first expression comes."""
    import re2

    return re2
