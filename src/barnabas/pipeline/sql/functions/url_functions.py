"""Functions of URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import Function, Signature, row, spark, takes
from barnabas.pipeline.sql.sql_types import INTEGER, STRING

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

_AUTHORITY_PORT: Final = r":([0-9]+)$"


def _urls(name: str, description: str, *signatures: Signature) -> Function:
    return row(name, "URLs", "0.6.0", description, *signatures)


def _part(name: str, url: Column) -> Column:
    return spark().try_parse_url(url, spark().lit(name))


def _decoded(text: Column) -> Column:
    return spark().try_url_decode(text)


def _encoded(text: Column) -> Column:
    return spark().url_encode(text)


def _parameter(url: Column, name: Column) -> Column:
    """Return the value of a parameter; NULL without one."""
    f = spark()
    pairs = f.split(_part("QUERY", url), "&", -1)
    start = f.concat(f.url_encode(name), f.lit("="))
    spaced = f.replace(start, f.lit("+"), f.lit("%20"))

    def is_wanted(pair: Column) -> Column:
        return pair.startswith(start) | pair.startswith(spaced)

    found = f.try_element_at(f.filter(pairs, is_wanted), f.lit(1))
    return _decoded(f.substring(found, f.instr(found, f.lit("=")) + 1, f.length(found)))


def _port(url: Column) -> Column:
    found = spark().regexp_extract(_part("AUTHORITY", url), _AUTHORITY_PORT, 1)
    return found.try_cast("int")


ROWS: Final = (
    _urls("URL_DECODE_PARAM", "A parameter, decoded.", takes(STRING, to=STRING, by=_decoded)),
    _urls(
        "URL_ENCODE_PARAM", "A text, encoded as a parameter.", takes(STRING, to=STRING, by=_encoded)
    ),
    _urls(
        "URL_EXTRACT_FRAGMENT",
        "The fragment, decoded.",
        takes(STRING, to=STRING, by=lambda url: _decoded(_part("REF", url))),
    ),
    _urls(
        "URL_EXTRACT_HOST", "The host.", takes(STRING, to=STRING, by=lambda url: _part("HOST", url))
    ),
    _urls(
        "URL_EXTRACT_PARAMETER",
        "The value of a parameter, decoded.",
        takes(STRING, STRING, to=STRING, by=_parameter),
    ),
    _urls(
        "URL_EXTRACT_PATH", "The path.", takes(STRING, to=STRING, by=lambda url: _part("PATH", url))
    ),
    _urls("URL_EXTRACT_PORT", "The port.", takes(STRING, to=INTEGER, by=_port)),
    _urls(
        "URL_EXTRACT_PROTOCOL",
        "The protocol.",
        takes(STRING, to=STRING, by=lambda url: _part("PROTOCOL", url)),
    ),
    _urls(
        "URL_EXTRACT_QUERY",
        "The query, decoded.",
        takes(STRING, to=STRING, by=lambda url: _decoded(_part("QUERY", url))),
    ),
)
