"""The places of error codes in a response to a request that failed as a whole.

As Kafka's `AbstractRequest.getErrorResponse`: the code goes to the top level where that version of
the response has one, otherwise to every item of the request. A place is declared by names of
fields; `error_responses` builds the response.
"""

from collections.abc import Mapping

import attrs

from barnabas.protocol.errors import ErrorCode


@attrs.frozen
class Items:
    """An array of a request and the array of the response that answers it, item by item."""

    asked: str
    """The field of the request, or of the item above."""
    answers: str
    """The field of the response, or of the answer above; empty: the answer above itself."""
    names: Mapping[str, str]
    """Fields that name an answer, each with the field of the item that it is taken from.

    An item that is a plain value fills the first of them.
    """


Path = tuple[Items, ...]
"""Arrays from the outermost to the innermost, whose answers get the code."""


def items(asked: str, answers: str, *same: str, **renamed: str) -> Items:
    """Return the items whose answers take the fields `same` as they are, and others `renamed`."""
    return Items(asked, answers, {**{name: name for name in same}, **renamed})


@attrs.frozen
class ErrorPlaces:
    """The places of an api's error codes beside the top level."""

    paths: tuple[Path, ...] = ()
    """One for each layout of the request: the first whose outermost field it has is taken."""
    beside_top_before: int = 0
    """Items get the code even where the top level has it, in versions before this one."""
    is_union: bool = False
    """True when each path is taken, not only the first."""
    unexpected: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    """The code of a request whose handler failed by a bug."""


def in_items(
    *paths: Path,
    beside_top_before: int = 0,
    is_union: bool = False,
    unexpected: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR,
) -> ErrorPlaces:
    """Return the places for an api with an error code for each item."""
    return ErrorPlaces(paths, beside_top_before, is_union, unexpected)


EVERY_VERSION = 1 << 15
"""Is above all versions, for `beside_top_before`."""

AT_TOP_LEVEL = ErrorPlaces()
"""The place of an api that has an error code for the whole response, in every version."""
