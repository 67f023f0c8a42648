"""A request to Connect's REST API as handlers see it, the routes, and the forms of an answer."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from barnabas.pipeline.connect.rest_errors import bad_request, not_found
from barnabas.pipeline.rest.job_rights import UNLIMITED, CallerRights

if TYPE_CHECKING:
    from barnabas.pipeline.rest.connect_api import ConnectContext

OK: Final = 200
CREATED: Final = 201
ACCEPTED: Final = 202
NO_CONTENT: Final = 204


@attrs.frozen
class Answer:
    """Status, JSON body and headers of a response. A body of None is an empty one."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = attrs.Factory(dict[str, str])


AskConnect = Callable[[str, Sequence[str], object, CallerRights], Awaitable[Answer]]
"""Answers a request of another API of the runner: method, segments of the path, a body that
becomes JSON, and the rights of the caller."""


@attrs.frozen
class ConnectCall:
    """One request: the parameters of the path, the query, and the body."""

    context: "ConnectContext"
    places: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: bytes
    rights: CallerRights = UNLIMITED
    """The rights of the caller."""

    def check_config(self, config: Mapping[str, str | None]) -> None:
        """Raise ConnectRestError (403) unless the caller has the rights on a job's topics."""
        self.rights.check_job(config, self.context.service.plugin_of(config))

    def check_stored(self, name: str) -> None:
        """Raise ConnectRestError (403) unless the caller may change a job, if it exists."""
        entry = self.context.service.state.connectors.get(name)
        if entry is not None:
            self.check_config(entry.config)
        elif self.context.java is not None:
            self.context.java.check_stored(self, name)

    @property
    def connector(self) -> str:
        """The connector that the path names."""
        return self.places["connector"]

    @property
    def task(self) -> int:
        """The number of the task that the path names. Raises ConnectRestError (404)."""
        text = self.places["task"]
        if not text.isascii() or not text.isdecimal() or len(text) > 9:
            raise not_found("HTTP 404 Not Found")
        return int(text)

    def texts(self, name: str) -> list[str]:
        """Return all values of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a query parameter that is true or false."""
        values = self.texts(name)
        return values[0].lower() == "true" if values else default

    def json_object(self) -> dict[str, Any]:
        """Return the JSON object of the body. Raises ConnectRestError (400)."""
        try:
            found = json.loads(self.body, parse_float=_number, parse_constant=_refuse_constant)
            json.dumps(found, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
        except (ValueError, RecursionError) as error:
            raise bad_request(f"The body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise bad_request("The body must be a JSON object")
        return cast(dict[str, Any], found)

    def properties(self, found: object) -> dict[str, str | None]:
        """Return a configuration; numbers and booleans become texts, as Jackson reads them.

        Raises ConnectRestError (400) for nested values.
        """
        if not isinstance(found, dict):
            raise bad_request("The configuration must be a JSON object of texts")
        fields = cast(dict[str, object], found)
        return {name: _property(name, value) for name, value in fields.items()}


class _Number(float):
    """A number with a fraction or an exponent, as the request writes it."""

    text: str


def _number(text: str) -> _Number:
    found = _Number(text)
    found.text = text
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _property(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, bool | int):
        return json.dumps(value)
    raise bad_request(f"The value of {name} must be a text")


Handler = Callable[[ConnectCall], Awaitable[Answer]]


@attrs.frozen
class ConnectRoute:
    """One method on one path; path parameters are in braces."""

    method: str
    segments: tuple[str, ...]
    handler: Handler
    needs_store: bool

    def places(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the parameters of a path, None for another path."""
        if len(segments) != len(self.segments):
            return None
        found: dict[str, str] = {}
        for expected, given in zip(self.segments, segments, strict=True):
            if expected.startswith("{"):
                found[expected[1:-1]] = given
            elif expected != given:
                return None
        return found


ROUTES: list[ConnectRoute] = []


def route(spec: str, *, needs_store: bool = True) -> Callable[[Handler], Handler]:
    """Register a handler for "METHOD /path/{place}".

    `needs_store` is False for what can be answered before the runner has read its topics.
    """
    method, _, path = spec.partition(" ")
    segments = tuple(segment for segment in path.split("/") if segment)

    def register(handler: Handler) -> Handler:
        ROUTES.append(ConnectRoute(method, segments, handler, needs_store))
        return handler

    return register
