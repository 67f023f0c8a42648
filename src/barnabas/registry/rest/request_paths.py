"""Paths of requests: decoding of segments, and contexts given as ``/contexts/{context}/...``.

Segments are decoded after the path is split, so that ``%2F`` belongs to a subject's name.
"""

from urllib.parse import unquote_to_bytes

from barnabas.registry.core.registry_errors import RegistryError
from barnabas.registry.core.subject_names import (
    DEFAULT_CONTEXT,
    WILDCARD_PREFIX,
    context_of,
    context_subject,
    has_control_characters,
    normalize_context,
    qualified_in,
)

# What may follow /contexts/{context}; anything else belongs to the contexts themselves.
_SCOPED = ("subjects", "schemas", "compatibility", "config", "mode")


def split_path(raw_path: str) -> list[str]:
    """Return the decoded segments of a path.

    Raises RegistryError when a segment is empty, has control characters or is not UTF-8.
    """
    raw_segments = raw_path.strip().removeprefix("/").removesuffix("/").split("/")
    if raw_segments == [""]:
        return []
    return [_decoded(segment) for segment in raw_segments]


def _decoded(raw: str) -> str:
    try:
        segment = unquote_to_bytes(raw).decode() if "%" in raw or not raw.isascii() else raw
    except UnicodeDecodeError:
        raise RegistryError(400, 400, "The path is not UTF-8") from None
    if not segment:
        raise RegistryError(400, 400, "The path has an empty segment")
    if has_control_characters(segment):
        raise RegistryError(400, 400, "The path has control characters")
    return segment


def in_context(
    segments: list[str], query: list[tuple[str, str]]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return a request below ``/contexts/{context}`` as the same request with qualified names.

    Raises RegistryError when a name is already qualified with another context.
    """
    if len(segments) < 3 or segments[0] != "contexts" or segments[2] not in _SCOPED:
        return segments, query
    context = normalize_context(segments[1])
    rest = segments[2:]
    at = 2 if rest[0] == "compatibility" else 1
    if rest[0] == "schemas":
        pass
    elif len(rest) > at:
        rest = [*rest[:at], _qualified(context, rest[at]), *rest[at + 1 :]]
    elif rest[0] in ("config", "mode") and context != DEFAULT_CONTEXT:
        rest = [*rest, context_subject(context)]
    return rest, _scoped_query(context, rest, query)


def _scoped_query(
    context: str, segments: list[str], query: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    name = "subjectPrefix" if len(segments) == 1 else "subject"
    given = next((value for key, value in query if key == name), "")
    kept = [(key, value) for key, value in query if key != name]
    return [*kept, (name, _qualified(context, given))]


def _qualified(context: str, name: str) -> str:
    if name.startswith(WILDCARD_PREFIX) or (name.startswith(":.") and context_of(name) != context):
        raise RegistryError(400, 400, f"'{name}' is not in the context '{context}'")
    if not name:
        return context_subject(context)
    return qualified_in(context, name)
