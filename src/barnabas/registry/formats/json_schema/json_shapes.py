"""The shape of each keyword: which values are valid schemas at all.

The rules are those of the drafts' meta-schemas, with one exception that the Java registry makes:
``true`` and ``false`` are schemas in draft 4 too. They are checked here and not by a validator of
meta-schemas, because one takes five seconds for a schema of 1 MiB in the newest draft, and this
takes a tenth of one.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Any

import re2

from barnabas.registry.formats.json_text import is_array, is_object
from barnabas.registry.formats.schema_format import SchemaError


class Draft(IntEnum):
    """The drafts of JSON Schema, in order."""

    D4 = 4
    D6 = 6
    D7 = 7
    D2019 = 2019
    D2020 = 2020


TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

_DRAFTS = {
    "json-schema.org/draft-04/schema": Draft.D4,
    "json-schema.org/draft-06/schema": Draft.D6,
    "json-schema.org/draft-07/schema": Draft.D7,
    "json-schema.org/draft/2019-09/schema": Draft.D2019,
    "json-schema.org/draft/2020-12/schema": Draft.D2020,
}


def draft_of(schema: Any) -> Draft:
    """Return the draft that ``$schema`` names, draft 7 when it names none that is known."""
    written = schema.get("$schema") if is_object(schema) else None
    if not isinstance(written, str):
        return Draft.D7
    return _DRAFTS.get(written.partition("://")[2].rstrip("#"), Draft.D7)


def is_number(value: Any) -> bool:
    """True when a value of JSON is a number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def check_shapes(schema: dict[str, Any], draft: Draft, path: str) -> None:
    """Check the keywords of one schema object; subschemas are checked when they are read.

    Raises SchemaError for a keyword with a value that the draft does not allow.
    """
    for keyword, value in schema.items():
        check = _CHECKS.get(keyword)
        if check is not None and not check(value, draft):
            raise SchemaError(f"{keyword} has a value that is not allowed", f"{path}/{keyword}")


def check_pattern(pattern: str, path: str) -> None:
    """Check the syntax of a regular expression.

    Raises SchemaError when it is not valid. One that uses what re2 cannot match in linear time
    (look-around, back-references) is accepted, and never matched.
    """
    if compiled_pattern(pattern) is None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise SchemaError(f"not a regular expression: {error}", path) from error


@lru_cache(maxsize=256)
def compiled_pattern(pattern: str) -> Any:
    """Return a pattern that matches in linear time, None when there is none."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _is_schema(value: Any, _: Draft) -> bool:
    return is_object(value) or isinstance(value, bool)


def _is_schema_list(value: Any, draft: Draft) -> bool:
    return is_array(value) and bool(value) and all(_is_schema(item, draft) for item in value)


def _is_schema_map(value: Any, draft: Draft) -> bool:
    return is_object(value) and all(_is_schema(item, draft) for item in value.values())


def _is_items(value: Any, draft: Draft) -> bool:
    return (draft < Draft.D2020 and _is_schema_list(value, draft)) or _is_schema(value, draft)


def _is_strings(value: Any, _: Draft) -> bool:
    return (
        is_array(value)
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _is_required(value: Any, draft: Draft) -> bool:
    return _is_strings(value, draft) and (bool(value) or draft > Draft.D4)


def _is_dependencies(value: Any, draft: Draft) -> bool:
    return is_object(value) and all(
        _is_schema(item, draft) or _is_required(item, draft) for item in value.values()
    )


def _is_string_lists(value: Any, draft: Draft) -> bool:
    return is_object(value) and all(_is_strings(item, draft) for item in value.values())


def _is_count(value: Any, draft: Draft) -> bool:
    if not is_number(value) or value < 0:
        return False
    return isinstance(value, int) or (draft > Draft.D4 and value == value.to_integral_value())


def _is_number(value: Any, _: Draft) -> bool:
    return is_number(value)


def _is_exclusive(value: Any, draft: Draft) -> bool:
    return isinstance(value, bool) if draft == Draft.D4 else is_number(value)


def _is_multiple(value: Any, _: Draft) -> bool:
    return is_number(value) and value > 0


def _is_bool(value: Any, _: Draft) -> bool:
    return isinstance(value, bool)


def _is_string(value: Any, _: Draft) -> bool:
    return isinstance(value, str)


def _is_type(value: Any, draft: Draft) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _is_strings(value, draft) and bool(value) and all(item in TYPES for item in value)


def _is_enum(value: Any, draft: Draft) -> bool:
    return is_array(value) and (bool(value) or draft > Draft.D4)


def _since(first: Draft, check: Callable[[Any, Draft], bool]) -> Callable[[Any, Draft], bool]:
    """Return a check that applies from a draft on; before, the keyword is unknown."""
    return lambda value, draft: draft < first or check(value, draft)


_CHECKS: dict[str, Callable[[Any, Draft], bool]] = {
    **dict.fromkeys(("$ref", "$schema", "title", "description", "pattern"), _is_string),
    **dict.fromkeys(("format",), _is_string),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _is_schema_list),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _is_schema_map),
    **dict.fromkeys(("not", "additionalProperties", "additionalItems"), _is_schema),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _is_count),
    **dict.fromkeys(("maxProperties", "minProperties"), _is_count),
    **dict.fromkeys(("maximum", "minimum"), _is_number),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), _is_exclusive),
    **dict.fromkeys(("contains", "propertyNames"), _since(Draft.D6, _is_schema)),
    **dict.fromkeys(("if", "then", "else"), _since(Draft.D7, _is_schema)),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), _since(Draft.D2019, _is_schema)),
    **dict.fromkeys(("$defs", "dependentSchemas"), _since(Draft.D2019, _is_schema_map)),
    **dict.fromkeys(("maxContains", "minContains"), _since(Draft.D2019, _is_count)),
    **dict.fromkeys(("$anchor",), _since(Draft.D2019, _is_string)),
    "id": lambda value, draft: draft > Draft.D4 or isinstance(value, str),
    "$id": _since(Draft.D6, _is_string),
    "dependentRequired": _since(Draft.D2019, _is_string_lists),
    "prefixItems": _since(Draft.D2020, _is_schema_list),
    "dependencies": _is_dependencies,
    "items": _is_items,
    "required": _is_required,
    "multipleOf": _is_multiple,
    "uniqueItems": _is_bool,
    "type": _is_type,
    "enum": _is_enum,
}
