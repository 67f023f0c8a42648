"""Valid topic names (Kafka's `org.apache.kafka.common.internals.Topic`)."""

import re
from collections.abc import Iterable

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def refusal(name: str) -> str | None:
    """Return why `name` is invalid, in Kafka's words, or None when it is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def unified(name: str) -> str:
    """The name as metrics know it, where `.` and `_` are one character."""
    return name.replace(".", "_")


def colliding(name: str, others: Iterable[str]) -> str | None:
    """Return a topic among `others` that differs from `name` in `.` and `_` only, or None."""
    if "." not in name and "_" not in name:
        return None
    wanted = unified(name)
    return next((other for other in others if other != name and unified(other) == wanted), None)
