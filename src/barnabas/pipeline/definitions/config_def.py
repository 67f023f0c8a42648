"""Definitions of configurations, as Connect describes and validates them.

A `ConfigDef` is an ordered set of `ConfigKey`s. `parse` returns typed values or raises;
`validate` returns a `ConfigValue` per key with all errors, which becomes the JSON of Connect's
validation. Messages are those of Apache Kafka, because clients show them.

Values of type CLASS stay class names: `plugin_registry` checks them against its table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

import attrs

from barnabas.pipeline.definitions.config_types import (
    ConfigType,
    ConfigValueError,
    ParsedValue,
    parse_value,
    value_text,
)


class Importance(Enum):
    """The likelihood that a person changes a property."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of a property's field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Validator(Protocol):
    """Checks the parsed value of a property."""

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise ConfigValueError for a value that is not acceptable."""
        ...


Recommender = Callable[[Mapping[str, ParsedValue]], Sequence[str]]
"""Returns the values to recommend, from the parsed configuration."""


Visibility = Callable[[Mapping[str, ParsedValue]], bool]
"""True when a form should show the property, from the parsed configuration."""


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _NoDefault.NO_DEFAULT
"""The default of a property that must be given."""


def _own_name(key: "ConfigKey") -> str:
    return key.name


@attrs.frozen
class ConfigKey:
    """One property: its type, default and description.

    `default` has the key's type; `NO_DEFAULT` makes the property required.
    """

    name: str
    type: ConfigType
    default: ParsedValue | _NoDefault
    importance: Importance
    documentation: str
    validator: Validator | None = attrs.field(default=None, kw_only=True)
    group: str | None = attrs.field(default=None, kw_only=True)
    order_in_group: int = attrs.field(default=-1, kw_only=True)
    width: Width = attrs.field(default=Width.NONE, kw_only=True)
    display_name: str = attrs.field(default=attrs.Factory(_own_name, takes_self=True), kw_only=True)
    dependents: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    recommender: Recommender | None = attrs.field(default=None, kw_only=True)
    visibility: Visibility | None = attrs.field(default=None, kw_only=True)
    class_check: Validator | None = attrs.field(default=None, kw_only=True)
    """Checks that a class exists, before the validator; an unknown class counts as missing."""

    @property
    def is_required(self) -> bool:
        """True when the property has no default."""
        return self.default is NO_DEFAULT

    def embedded(self, prefix: str, group: str, order_in_group: int) -> "ConfigKey":
        """Return the key as a part of another definition, under a prefix."""
        return attrs.evolve(
            self,
            name=prefix + self.name,
            group=group,
            order_in_group=order_in_group,
            dependents=tuple(prefix + name for name in self.dependents),
        )

    def prefixed(self, prefix: str) -> "ConfigKey":
        """Return the key with a prefix before its name; its display name stays."""
        return attrs.evolve(self, name=prefix + self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the key as REST answers describe it."""
        default = None if self.default is NO_DEFAULT else value_text(self.default)
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.is_required,
            "default_value": default,
            "importance": self.importance.value,
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order_in_group,
            "width": self.width.value,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }


@attrs.define
class ConfigValue:
    """The value of one property as validation found it, and what is wrong with it."""

    name: str
    value: ParsedValue = None
    recommended_values: list[str] = attrs.Factory(list[str])
    errors: list[str] = attrs.Factory(list[str])
    is_visible: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the value as REST answers show it; passwords are masked."""
        return {
            "name": self.name,
            "value": value_text(self.value),
            "recommended_values": self.recommended_values,
            "errors": self.errors,
            "visible": self.is_visible,
        }


class ConfigDef:
    """An ordered set of keys."""

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: Mapping[str, ConfigKey] = {key.name: key for key in keys}

    def extended(self, keys: Iterable[ConfigKey]) -> "ConfigDef":
        """Return a definition with more keys; a key of the same name replaces the old one."""
        return ConfigDef([*self.keys.values(), *keys])

    def embedded(self, prefix: str, group: str, first_order: int) -> list[ConfigKey]:
        """Return the keys as parts of another definition, under a prefix, in one group."""
        return [
            key.embedded(prefix, group, first_order + place)
            for place, key in enumerate(self.keys.values())
        ]

    @property
    def groups(self) -> list[str]:
        """The names of the groups, in the order of their first key."""
        return list(dict.fromkeys(key.group for key in self.keys.values() if key.group))

    def parse(self, props: Mapping[str, str | None]) -> dict[str, ParsedValue]:
        """Return the typed value of every key. Raises ConfigValueError for the first bad one."""
        return {key.name: _parsed(key, props) for key in self.keys.values()}

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """Return the value of every key with all its errors."""
        values = {key.name: _validated(key, props) for key in self.keys.values()}
        parsed = {name: value.value for name, value in values.items()}
        for key in self.keys.values():
            if key.recommender is not None:
                values[key.name].recommended_values = list(key.recommender(parsed))
            if key.visibility is not None:
                values[key.name].is_visible = key.visibility(parsed)
        return list(values.values())


def _parsed(key: ConfigKey, props: Mapping[str, str | None]) -> ParsedValue:
    if key.name in props:
        value = _value_of(key, props[key.name])
    elif key.default is NO_DEFAULT:
        raise ConfigValueError(_missing(key.name))
    else:
        value = key.default
    if key.validator is not None:
        key.validator(key.name, value)
    return value


def _value_of(key: ConfigKey, text: str | None) -> ParsedValue:
    value = parse_value(key.name, text, key.type)
    if key.class_check is not None:
        key.class_check(key.name, value)
    return value


def _validated(key: ConfigKey, props: Mapping[str, str | None]) -> ConfigValue:
    """Return the value of a key with all errors: those of the type, and of the validator."""
    found = ConfigValue(key.name)
    if key.name in props:
        try:
            found.value = _value_of(key, props[key.name])
        except ConfigValueError as error:
            found.errors.append(str(error))
    elif key.default is NO_DEFAULT:
        found.errors.append(_missing(key.name))
    else:
        found.value = key.default
    if key.validator is not None:
        try:
            key.validator(key.name, found.value)
        except ConfigValueError as error:
            found.errors.append(str(error))
    return found


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'
