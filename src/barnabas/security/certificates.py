"""The parts of an X.509 certificate that a server uses: subject, validity, alternative names."""

from datetime import UTC, datetime
from typing import Final

import attrs

from barnabas.key_stores.der import (
    CONTEXT_0,
    CONTEXT_3,
    OBJECT_ID,
    SEQUENCE,
    UTC_TIME,
    elements,
    object_id,
    only,
)

_SUBJECT_ALTERNATIVE_NAMES: Final = "2.5.29.17"
# A year of two digits from 50 on is one of the last century (RFC 5280, 4.1.2.5.1).
_CENTURY_TURNS_AT: Final = 50


@attrs.frozen
class Certificate:
    """A certificate's subject as DER, its last day, and its alternative names as DER."""

    subject: bytes
    not_after: datetime
    alternative_names: frozenset[bytes]


def read_certificate(der: bytes) -> Certificate:
    """Return the parts of a certificate. Raises ValueError when it is not a certificate."""
    parts = list(elements(only(only(der, SEQUENCE), SEQUENCE)))
    if parts and parts[0].tag == CONTEXT_0:  # the version
        del parts[0]
    if len(parts) < 6:
        raise ValueError("a certificate has fewer than 6 parts")
    _, _, _, validity, subject, _ = parts[:6]
    _, not_after = elements(validity.contents)
    extensions = next((part.contents for part in parts if part.tag == CONTEXT_3), b"")
    return Certificate(
        subject=subject.encoding,
        not_after=_time(not_after.tag, not_after.contents.decode("ascii")),
        alternative_names=_alternative_names(extensions),
    )


def _time(tag: int, text: str) -> datetime:
    if tag == UTC_TIME:
        century = "19" if int(text[:2]) >= _CENTURY_TURNS_AT else "20"
        text = century + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _alternative_names(extensions: bytes) -> frozenset[bytes]:
    if not extensions:
        return frozenset()
    for extension in elements(only(extensions, SEQUENCE)):
        name, *rest = elements(extension.contents)
        if name.tag == OBJECT_ID and object_id(name.contents) == _SUBJECT_ALTERNATIVE_NAMES:
            names = only(rest[-1].contents, SEQUENCE)
            return frozenset(element.encoding for element in elements(names))
    return frozenset()
