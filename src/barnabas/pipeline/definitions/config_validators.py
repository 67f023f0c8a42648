"""Validators of configuration values, with the messages of Apache Kafka."""

import re
import unicodedata
from collections.abc import Sequence
from typing import cast

import attrs

from barnabas.pipeline.definitions.config_def import Validator
from barnabas.pipeline.definitions.config_types import ConfigValueError, ParsedValue


@attrs.frozen
class InRange:
    """Accepts numbers between two limits, both included; a limit of None is open."""

    lowest: float | None = None
    highest: float | None = None

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise ConfigValueError for a number outside the limits."""
        if not isinstance(value, int | float):
            raise ConfigValueError.of(name, None, "Value must be non-null")
        if self.lowest is not None and value < self.lowest:
            raise ConfigValueError.of(name, value, f"Value must be at least {self.lowest}")
        if self.highest is not None and value > self.highest:
            raise ConfigValueError.of(name, value, f"Value must be no more than {self.highest}")


@attrs.frozen
class OneOf:
    """Accepts certain texts."""

    choices: tuple[str, ...]
    ignores_case: bool = False

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise ConfigValueError for any other text."""
        shown = ", ".join(self.choices)
        if not self.ignores_case:
            if value not in self.choices:
                raise ConfigValueError.of(name, value, f"String must be one of: {shown}")
            return
        upper = {choice.upper() for choice in self.choices}
        if not isinstance(value, str) or value.upper() not in upper:
            shown = ", ".join(sorted(upper))
            reason = f"String must be one of (case insensitive): {shown}"
            raise ConfigValueError.of(name, value, reason)


def non_empty(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for an empty text."""
    if value == "":
        raise ConfigValueError.of(name, value, "String must be non-empty")


def non_null(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a value that is missing."""
    if value is None:
        raise ConfigValueError.of(name, None, "entry must be non null")


def clean_name(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for an empty name, or one with control characters."""
    if value is None:
        return
    text = str(value)
    if not text:
        raise ConfigValueError.of(name, value, "String may not be empty")
    found = [str(ord(each)) for each in text if unicodedata.category(each) == "Cc"]
    if found:
        reason = "String may not contain control sequences but had the following ASCII chars: "
        raise ConfigValueError.of(name, value, reason + ", ".join(found))


def distinct_items(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a list that is missing, or has empty or repeated items."""
    if value is None:
        raise ConfigValueError(f"Configuration '{name}' values must not be null.")
    items = cast(list[str], value)
    if len(set(items)) != len(items):
        raise ConfigValueError(f"Configuration '{name}' values must not be duplicated.")
    if "" in items:
        raise ConfigValueError(f"Configuration '{name}' values must not be empty.")


def distinct_aliases(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a list of aliases that is missing or repeats one."""
    non_null(name, value)
    items = cast(list[str], value)
    if len(set(items)) != len(items):
        raise ConfigValueError.of(name, value, "Duplicate alias provided.")


def regex(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a text that is not a regular expression."""
    try:
        re.compile(str(value))
    except re.error as error:
        raise ConfigValueError.of(name, value, f"Invalid regex: {error}") from None


@attrs.frozen
class AllOf:
    """Accepts a value that each of several validators accepts."""

    validators: Sequence[Validator]

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise the first validator's ConfigValueError."""
        for validator in self.validators:
            validator(name, value)
