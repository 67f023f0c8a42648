"""Functions of regular expressions, which are Java's, and of masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    Function,
    Signature,
    row,
    spark,
    takes,
    takes_many,
)
from barnabas.pipeline.sql.sql_types import INTEGER, STRING, array

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column

_MASKS: Final = ("X", "x", "n", "-")
_NO_GROUP: Final = r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
_GROUP: Final = r"\((?!\?)|\(\?<[A-Za-z]"
_REPLACEMENT: Final = r"(?s)^(?:[^\\$]|\\.|\$[0-9]|\$\{[A-Za-z][A-Za-z0-9]*\})*$"


def _patterns(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Regular expressions", since, description, *signatures)


def _valid(pattern: Column) -> Column:
    """Return a regular expression; NULL where Java does not compile it."""
    f = spark()
    compiled = f.try_reflect(f.lit("java.util.regex.Pattern"), f.lit("compile"), pattern)
    # Spark compiles no NULL; without a text to compile, Java's method would not be found.
    return f.when(pattern.isNotNull() & compiled.isNotNull(), pattern)


def _extract(pattern: Column, text: Column) -> Column:
    return _extract_group(pattern, text, spark().lit(0))


def _extract_group(pattern: Column, text: Column, group: Column) -> Column:
    """Return the group of the first match; NULL without one, or without the group."""
    f, valid = spark(), _valid(pattern)
    found = f.regexp_extract_all(text, valid, group)
    is_there = _has_group(pattern, group) & f.rlike(text, valid)
    return f.when(is_there, f.try_element_at(found, f.lit(1)))


def _has_group(pattern: Column, group: Column) -> Column:
    """True for a number of a group, from 0 for the whole match."""
    return (group >= 0) & (group <= _groups(pattern))


def _groups(pattern: Column) -> Column:
    """Return the number of groups; parentheses that are quoted or in a class open none."""
    f = spark()
    return f.regexp_count(f.regexp_replace(pattern, _NO_GROUP, ""), f.lit(_GROUP))


def _extract_all(pattern: Column, text: Column) -> Column:
    return spark().regexp_extract_all(text, _valid(pattern), spark().lit(0))


def _extract_all_groups(pattern: Column, text: Column, group: Column) -> Column:
    found = spark().regexp_extract_all(text, _valid(pattern), group)
    return spark().when(_has_group(pattern, group), found)


def _replaced(text: Column, pattern: Column, new: Column) -> Column:
    found = spark().regexp_replace(text, _valid(pattern), new)
    return spark().when(_is_replacement(new, pattern), found)


def _is_replacement(new: Column, pattern: Column) -> Column:
    """True for a text whose references are to groups of the pattern."""
    f = spark()
    bare = f.regexp_replace(new, r"(?s)\\.", "")
    numbers = f.regexp_extract_all(bare, f.lit(r"\$([0-9])"), f.lit(1))
    names = f.regexp_extract_all(bare, f.lit(r"\$\{(\w+)\}"), f.lit(1))

    def is_number(group: Column) -> Column:
        return group.cast("int") <= _groups(pattern)

    def is_name(group: Column) -> Column:
        return f.contains(pattern, f.concat(f.lit("(?<"), group, f.lit(">")))

    has_groups = f.forall(numbers, is_number) & f.forall(names, is_name)
    return new.rlike(_REPLACEMENT) & has_groups


def _divided(text: Column, pattern: Column) -> Column:
    """Return the parts between matches; the characters when the expression is empty."""
    f = spark()
    return f.when(pattern == "", f.split(text, "(?!^)(?!$)", -1)).otherwise(
        f.split(text, _valid(pattern), -1)
    )


def _masked(text: Column, *masks: Column) -> Column:
    """Return a text with its letters, digits and other characters replaced; NULL keeps a kind."""
    given = [*masks, *(spark().lit(each) for each in _MASKS[len(masks) :])]
    return spark().mask(text, *given)


def _left(text: Column, size: Column) -> Column:
    return spark().substring(text, spark().lit(1), size)


def _behind(text: Column, size: Column) -> Column:
    return spark().substring(text, size + 1, spark().length(text))


def _mask_part(*, is_left: bool, is_kept: bool) -> Callable[..., Column]:
    """Return the function that masks, or keeps, characters at one side."""

    def masked(text: Column, size: Column, *masks: Column) -> Column:
        f = spark()
        known = f.least(size, f.length(text))
        place = known if is_left else f.length(text) - known
        parts = [_left(text, place), _behind(text, place)]
        index = int(is_left == is_kept)
        parts[index] = _masked(parts[index], *masks)
        return f.when(size >= 0, f.concat(*parts))

    return masked


def _masks(name: str, description: str, *, is_left: bool, is_kept: bool) -> Function:
    by = _mask_part(is_left=is_left, is_kept=is_kept)
    return row(
        name,
        "Strings",
        "0.6.0",
        description,
        takes(STRING, INTEGER, to=STRING, by=by),
        takes_many(STRING, INTEGER, STRING, to=STRING, by=by),
    )


ROWS: Final = (
    row(
        "MASK",
        "Strings",
        "0.6.0",
        "Upper case, lower case, digits and others replaced by X, x, n and -, or as given.",
        takes(STRING, to=STRING, by=_masked),
        takes_many(STRING, STRING, to=STRING, by=_masked),
    ),
    _masks("MASK_KEEP_LEFT", "As MASK, but not the first characters.", is_left=True, is_kept=True),
    _masks("MASK_KEEP_RIGHT", "As MASK, but not the last characters.", is_left=False, is_kept=True),
    _masks("MASK_LEFT", "As MASK, of the first characters only.", is_left=True, is_kept=False),
    _masks("MASK_RIGHT", "As MASK, of the last characters only.", is_left=False, is_kept=False),
    _patterns(
        "REGEXP_EXTRACT",
        "0.8.0",
        "The first match of an expression (the first argument), or one of its groups.",
        takes(STRING, STRING, to=STRING, by=_extract),
        takes(STRING, STRING, INTEGER, to=STRING, by=_extract_group),
    ),
    _patterns(
        "REGEXP_EXTRACT_ALL",
        "0.10.0",
        "All matches of an expression (the first argument), or of one of its groups.",
        takes(STRING, STRING, to=array(STRING), by=_extract_all),
        takes(STRING, STRING, INTEGER, to=array(STRING), by=_extract_all_groups),
    ),
    _patterns(
        "REGEXP_REPLACE",
        "0.10.0",
        "All matches of an expression replaced.",
        takes(STRING, STRING, STRING, to=STRING, by=_replaced),
    ),
    _patterns(
        "REGEXP_SPLIT_TO_ARRAY",
        "0.10.0",
        "The parts between the matches of an expression.",
        takes(STRING, STRING, to=array(STRING), by=_divided),
    ),
)
