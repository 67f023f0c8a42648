"""Distinguished names in the form of Java's `X500Principal.getName()` (RFC 2253).

The last part comes first; parts are separated by a comma without a space. Only nine attributes have
keywords. Any other is written by its object identifier, with its value as # and the hexadecimal
digits of its DER form.
"""

from typing import Final

from barnabas.key_stores.der import SEQUENCE, Element, elements, object_id, only

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, TeletexString, IA5String, GeneralString, UniversalString, BMPString;
# Java reads the bytes of each as UTF-8.
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def distinguished_name(subject: bytes) -> str:
    """Return the name of a DER subject. Raises ValueError when it is malformed."""
    parts = [_relative(part) for part in elements(only(subject, SEQUENCE))]
    return ",".join(reversed(parts))


def _relative(part: Element) -> str:
    return "+".join(_attribute(element) for element in elements(part.contents))


def _attribute(element: Element) -> str:
    kind, value = elements(element.contents)
    oid = object_id(kind.contents)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or oid}=#{value.encoding.hex()}"
    text = value.contents.decode("utf-8", "replace")
    return f"{keyword}={_escaped(text)}"


def _escaped(text: str) -> str:
    inner = "".join(f"\\{sign}" if sign in _ESCAPED else sign for sign in text)
    stripped = inner.lstrip(" ")
    leading = len(inner) - len(stripped)
    kept = stripped.rstrip(" ")
    trailing = len(stripped) - len(kept)
    return "\\ " * leading + kept.replace("\0", "\\00") + "\\ " * trailing
