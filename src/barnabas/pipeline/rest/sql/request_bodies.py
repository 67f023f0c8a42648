"""Bodies of requests: JSON objects with a script, properties and variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import attrs

from barnabas.pipeline.rest.sql.sql_errors import BAD_REQUEST, SqlRestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.http.asgi import Receive

_STREAMS_PREFIX = "ksql.streams."


class ClientGoneError(Exception):
    """The client closed its connection."""


@attrs.frozen
class SqlRequest:
    """A script with what holds for this request alone."""

    text: str
    properties: dict[str, str]
    variables: dict[str, str]
    sequence: int | None = None
    """The number of the command that must have run before."""


async def read_body(receive: Receive) -> bytes:
    """Return the whole body. Raises ClientGoneError."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; an empty body is an empty one. Raises SqlRestError."""
    try:
        found: Any = json.loads(data or b"{}")
        json.dumps(found, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except UnicodeDecodeError as error:
        problem = f"The body is not UTF-8 ({error}): send JSON as it is, without compression"
        raise SqlRestError(BAD_REQUEST, problem) from None
    except (ValueError, RecursionError) as error:
        raise SqlRestError(BAD_REQUEST, f"The body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise SqlRestError(BAD_REQUEST, "The body must be a JSON object")
    return cast(dict[str, Any], found)


def statement_request(data: bytes, text: str, properties: str) -> SqlRequest:
    """Return a request whose script and properties have these names. Raises SqlRestError."""
    found = json_object(data)
    if not isinstance(found.get(text), str):
        raise SqlRestError(BAD_REQUEST, f"The body must have the text {text}: the statements")
    sequence = found.get("commandSequenceNumber")
    if sequence is not None and (isinstance(sequence, bool) or not isinstance(sequence, int)):
        raise SqlRestError(BAD_REQUEST, "commandSequenceNumber must be a whole number")
    given = _texts(found, properties)
    return SqlRequest(
        found[text],
        {name.removeprefix(_STREAMS_PREFIX): each for name, each in given.items()},
        {name.upper(): each for name, each in _texts(found, "sessionVariables").items()},
        sequence,
    )


def _texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return a member of the body with texts; numbers and booleans become texts."""
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise SqlRestError(BAD_REQUEST, f"{name} must be a JSON object")
    found: dict[str, str] = {}
    for key, each in cast(dict[str, object], given).items():
        if isinstance(each, dict | list) or each is None:
            raise SqlRestError(BAD_REQUEST, f"The value of {key} in {name} must be a text")
        found[key] = each if isinstance(each, str) else json.dumps(each)
    return found
