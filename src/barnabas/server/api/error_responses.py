"""Builds the error response of a request that its handler did not answer itself."""

from typing import Any

from barnabas.protocol.apis import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.error_places import ErrorPlaces, Items, Path

# The field's name, and the name in the partitions of AddPartitionsToTxn.
_CODES = ("error_code", "partition_error_code")


def error_response(
    api: ApiKey,
    places: ErrorPlaces,
    request: Any,
    version: int,
    code: ErrorCode,
    message: str | None,
) -> Any | None:
    """Return the response that says `code` for all of `request`; None where it has no place."""
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        code = places.unexpected
    response: Any = api.response_type()
    at_top = _set_code(response, version, code, message)
    if request is None or (at_top and version >= places.beside_top_before):
        return response if at_top else None
    path = _path(places, request, version)
    if path is None:
        return response if at_top else None
    for each in places.paths if places.is_union else (path,):
        for answer in _answers(response, request, each):
            _set_code(answer, version, code, message)
    return response


def _path(places: ErrorPlaces, request: Any, version: int) -> Path | None:
    return next((path for path in places.paths if _has(request, path[0].asked, version)), None)


def _has(struct: Any, name: str, version: int) -> bool:
    field = struct.FIELDS.get(name)
    return field is not None and field.versions.has(version)


def _set_code(answer: Any, version: int, code: ErrorCode, message: str | None) -> bool:
    """Set the answer's code and message; False when that version of it has no code."""
    name = next((name for name in _CODES if _has(answer, name, version)), None)
    if name is None:
        return False
    setattr(answer, name, code)
    if message is not None and _has(answer, "error_message", version):
        answer.error_message = message
    return True


def _answers(response: Any, request: Any, path: Path) -> list[Any]:
    """Add an answer to `response` for each item of `request`; return the innermost ones."""
    pairs: list[tuple[Any, Any]] = [(request, response)]
    for level in path:
        pairs = [
            (item, _answer(response, answered, item, level))
            for asked, answered in pairs
            for item in getattr(asked, level.asked) or ()
        ]
    return [answer for _, answer in pairs]


def _answer(response: Any, answered: Any, item: Any, level: Items) -> Any:
    """Add the answer to one item."""
    if not level.answers:
        return answered
    struct: Any = response.STRUCTS[answered.FIELDS[level.answers].struct]
    answer = struct(**_names(item, level))
    setattr(answered, level.answers, [*(getattr(answered, level.answers) or ()), answer])
    return answer


def _names(item: Any, level: Items) -> dict[str, Any]:
    """Return the fields that name the answer; a null name is left at the field's default."""
    if isinstance(item, str | int):
        return {next(iter(level.names)): item}
    names = {name: getattr(item, asked) for name, asked in level.names.items()}
    return {name: value for name, value in names.items() if value is not None}
