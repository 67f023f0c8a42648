"""The routes of the registry, declared once: dispatch and the OpenAPI document come from here."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from barnabas.registry.rest.rest_calls import RestCall
from barnabas.registry.rest.route_rights import Need

Handler = Callable[[RestCall], Any]


@attrs.frozen
class Parameter:
    """A query parameter."""

    name: str
    type: str
    description: str


@attrs.frozen
class RestRoute:
    """One method on one path. ``writes`` marks what the leader must do, ``needs`` who may."""

    method: str
    path: str
    handler: Handler
    parameters: tuple[Parameter, ...]
    body: str | None
    errors: tuple[int, ...]
    writes: bool
    needs: Need
    summary: str
    segments: tuple[str, ...] = attrs.field(init=False)
    """The segments of the path; places are in braces."""

    @property
    def is_repeatable(self) -> bool:
        """True when a write that was done before changes nothing and gets the same answer."""
        return self.method == "PUT" or self.path == "/subjects/{subject}/versions"

    @segments.default  # pyright: ignore[reportAttributeAccessIssue, reportUntypedFunctionDecorator]
    def _path_segments(self) -> tuple[str, ...]:
        return tuple(segment for segment in self.path.split("/") if segment)


def _parameter(name: str, description: str, kind: str = "boolean") -> tuple[str, Parameter]:
    return name, Parameter(name, kind, description)


PARAMETERS = dict(
    (
        _parameter("subjectPrefix", "Only subjects with this prefix; :*: is any context", "string"),
        _parameter("contextPrefix", "Only contexts with this prefix", "string"),
        _parameter("deleted", "Include what is soft-deleted"),
        _parameter("deletedOnly", "Only what is soft-deleted"),
        _parameter("deletedAsNegative", "Show soft-deleted versions as negative numbers"),
        _parameter("permanent", "Delete for good what is soft-deleted"),
        _parameter("normalize", "Compare and store the normal form"),
        _parameter("force", "Skip the check that would refuse"),
        _parameter("format", "Format of the schema's text", "string"),
        _parameter("referenceFormat", "'qualified' shows references with contexts", "string"),
        _parameter("findTags", "Show tags of the schema; * shows all", "string"),
        _parameter("fetchMaxId", "Show the largest id of the context"),
        _parameter("subject", "The subject, or context, to look in", "string"),
        _parameter("key", "Name of a metadata property; repeated", "string"),
        _parameter("value", "Value of a metadata property; repeated", "string"),
        _parameter("verbose", "Give the reasons"),
        _parameter("defaultToGlobal", "Show the setting that holds, wherever it is set"),
        _parameter("recursive", "Also the modes of the subjects below"),
        _parameter("aliases", "Include the subjects that aliases stand for"),
        _parameter("latestOnly", "Only the latest version of each subject"),
        _parameter("ruleType", "Only schemas with a rule of this type", "string"),
        _parameter("resourceType", "Only resources of this type", "string"),
        _parameter("associationType", "Only associations of this type", "string"),
        _parameter("lifecycle", "Only associations of this lifecycle", "string"),
        _parameter("offset", "Position of the first item", "integer"),
        _parameter("limit", "Number of items", "integer"),
    )
)

ROUTES: list[RestRoute] = []


def route(
    spec: str,
    *,
    needs: Need,
    parameters: str = "",
    body: str | None = None,
    errors: tuple[int, ...] = (),
    writes: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for ``"METHOD /path/{place}"``; its docstring is the summary."""
    method, _, path = spec.partition(" ")

    def register(handler: Handler) -> Handler:
        named = tuple(PARAMETERS[name] for name in parameters.split())
        summary = (handler.__doc__ or "").partition("\n")[0]
        ROUTES.append(RestRoute(method, path, handler, named, body, errors, writes, needs, summary))
        return handler

    return register


class RouteTable:
    """Finds the route of a request. The first segment of every route is literal."""

    def __init__(self, routes: list[RestRoute]) -> None:
        self._by_start: dict[tuple[int, str], list[RestRoute]] = {}
        for each in routes:
            self._by_start.setdefault(_start(each.segments), []).append(each)

    def find(self, method: str, segments: list[str]) -> tuple[RestRoute | None, dict[str, str]]:
        """Return the route and the values of its places; literal segments win over places."""
        best: tuple[int, RestRoute, dict[str, str]] | None = None
        for each in self._by_start.get(_start(segments), ()):
            if each.method != method:
                continue
            places = _match(each.segments, segments)
            if places is not None and (best is None or len(places) < best[0]):
                best = (len(places), each, places)
        return (best[1], best[2]) if best is not None else (None, {})

    def methods(self, segments: list[str]) -> list[str]:
        """Return the methods that a path takes."""
        return sorted(
            {
                each.method
                for each in self._by_start.get(_start(segments), ())
                if _match(each.segments, segments) is not None
            }
        )


def _start(segments: Sequence[str]) -> tuple[int, str]:
    return len(segments), segments[0] if segments else ""


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    places: dict[str, str] = {}
    for expected, found in zip(pattern, segments, strict=True):
        if expected[0] == "{":
            places[expected[1:-1]] = found
        elif expected != found:
            return None
    return places
