"""A record of ksqlDB's command topic as a value.

The key is a text of JSON, TYPE/ENTITY/ACTION, such as "stream/`CLICKS`/create". The value is an
object: `statement`, the properties of its session (`streamsProperties`) and of the server
(`originalProperties`), and the `plan`, whose `queryPlan` has the id of the query.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

_RESET: Final = "auto.offset.reset"
_SERVER_RESET: Final = f"ksql.streams.{_RESET}"
_DEFAULT_RESET: Final = "latest"
_POSITIONS: Final = ("earliest", "latest")
_INSERT: Final = re.compile(r"\s*INSERT\b", re.IGNORECASE)
_REPLACE: Final = re.compile(r"\s*CREATE\s+OR\s+REPLACE\b", re.IGNORECASE)


def topic_of(service_id: str) -> str:
    """Return the name of the command topic of a ksqlDB service."""
    return f"_confluent-ksql-{service_id}_command_topic"


class UnreadableCommandError(ValueError):
    """A record that is not a command."""


@dataclass(frozen=True)
class KsqlCommand:
    """One command."""

    kind: str
    """The kind of the entity: stream, table, type, terminate, cluster."""
    name: str
    """The name of the entity without back-quotes; of `terminate` the id of a query, or ALL."""
    action: str
    text: str
    """The statement, without its semicolon."""
    start: str = _DEFAULT_RESET
    """The first position of its query in a topic: earliest or latest, which is ksqlDB's default."""
    query: str | None = None
    """The id of its query; None without a query, and before ksqlDB 0.8."""

    @property
    def is_insert(self) -> bool:
        """True for INSERT INTO .. SELECT, whose key is that of a CREATE of the target."""
        return _INSERT.match(self.text) is not None

    @property
    def replaces(self) -> bool:
        """True for CREATE OR REPLACE."""
        return _REPLACE.match(self.text) is not None


def decode(key: bytes, value: bytes) -> KsqlCommand:
    """Return the command of a record. Raises UnreadableCommandError."""
    kind, name, action = _places(key)
    found = _object(_loaded(value, "value"), "value")
    text = found.get("statement")
    if not isinstance(text, str):
        raise UnreadableCommandError(f"its statement is {text!r}, and not a text")
    query = _optional(_optional(found, "plan"), "queryPlan").get("queryId")
    return KsqlCommand(
        kind,
        name,
        action,
        text.strip().removesuffix(";").rstrip(),
        _start(_optional(found, "streamsProperties"), _optional(found, "originalProperties")),
        query if isinstance(query, str) else None,
    )


def _places(key: bytes) -> tuple[str, str, str]:
    found = _loaded(key, "key")
    kind, _, rest = str(found).partition("/")
    name, _, action = rest.rpartition("/")
    if not isinstance(found, str) or not name:
        raise UnreadableCommandError(f"its key is {found!r}, and not 'TYPE/NAME/ACTION'")
    return kind.lower(), name.strip("`"), action.lower()


def _start(session: dict[str, Any], server: dict[str, Any]) -> str:
    given = (session.get(_RESET), session.get(_SERVER_RESET), server.get(_SERVER_RESET))
    return next((each for each in given if each in _POSITIONS), _DEFAULT_RESET)


def _loaded(data: bytes, what: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise UnreadableCommandError(f"its {what} is not JSON: {error}") from None


def _optional(found: dict[str, Any], name: str) -> dict[str, Any]:
    return _object(found.get(name) or {}, name)


def _object(found: Any, what: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise UnreadableCommandError(f"its {what} is {found!r}, and not an object")
    return cast("dict[str, Any]", found)
