"""The properties that every connector has.

Names, types, defaults, order and groups are those of Apache Kafka 4.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from barnabas.pipeline.connect.kind_definitions import engine_keys, sink_keys, source_keys
from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    PluginKind,
    PluginNotFoundError,
    PluginRegistry,
)
from barnabas.pipeline.definitions.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigKey,
    Importance,
    Recommender,
    Validator,
    Visibility,
    Width,
)
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import (
    InRange,
    OneOf,
    clean_name,
    distinct_aliases,
)

COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"

TASKS_MAX_DEFAULT: Final = 1

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


class _Group:
    """Numbers the keys of one group."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.order = 0

    def key(
        self,
        name: str,
        kind: ConfigType,
        default: Any,
        importance: Importance,
        display_name: str,
        documentation: str,
        *,
        validator: Validator | None = None,
        width: Width = Width.SHORT,
        recommender: Recommender | None = None,
        visibility: Visibility | None = None,
        class_check: Validator | None = None,
        group: str | None = None,
    ) -> ConfigKey:
        """Return the group's next key; `group` names another group with the same numbers."""
        self.order += 1
        return ConfigKey(
            name,
            kind,
            default,
            importance,
            documentation,
            validator=validator,
            group=group or self._name,
            order_in_group=self.order,
            width=width,
            display_name=display_name,
            recommender=recommender,
            visibility=visibility,
            class_check=class_check,
        )


class PluginClass:
    """Accepts names of plug-ins of certain kinds."""

    def __init__(self, registry: PluginRegistry, *kinds: PluginKind) -> None:
        self._registry = registry
        self._kinds = kinds

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise ConfigValueError for a name that the table does not have."""
        if value is None:
            return
        try:
            self._registry.find(str(value), *self._kinds)
        except PluginNotFoundError as error:
            raise ConfigValueError.of(name, value, str(error)) from None


def base_keys(registry: PluginRegistry, defaults: Mapping[str, Any]) -> list[ConfigKey]:
    """Return the properties of all connectors.

    `defaults` has the connector's version and the converters of the runner, by property name.
    """
    return [*_common_keys(registry, defaults), *_error_keys()]


def _common_keys(registry: PluginRegistry, defaults: Mapping[str, Any]) -> Iterator[ConfigKey]:
    group = _Group(COMMON)
    yield group.key(
        "name",
        ConfigType.STRING,
        NO_DEFAULT,
        _HIGH,
        "Connector name",
        "The connector's name, unique among the connectors of this group of runners.",
        validator=clean_name,
        width=Width.MEDIUM,
    )
    yield group.key(
        "connector.class",
        ConfigType.STRING,
        NO_DEFAULT,
        _HIGH,
        "Connector class",
        "The class of the connector: its full name, or its name without the package, with or "
        "without the ending Connector.",
        width=Width.LONG,
    )
    yield group.key(
        "connector.plugin.version",
        ConfigType.STRING,
        defaults.get("connector.plugin.version"),
        _MEDIUM,
        "Connector version",
        "The version of the connector's class.",
        width=Width.MEDIUM,
        recommender=versions_of(registry, "connector.class", *CONNECTORS),
    )
    yield group.key(
        "tasks.max",
        ConfigType.INT,
        TASKS_MAX_DEFAULT,
        _HIGH,
        "Tasks max",
        "The largest number of tasks that do the connector's work at the same time.",
        validator=InRange(1),
    )
    yield group.key(
        "tasks.max.enforce",
        ConfigType.BOOLEAN,
        True,
        _LOW,
        "Enforce tasks max",
        "(Deprecated) True fails a connector that makes more tasks than tasks.max.",
    )
    yield from _converter_keys(group, registry, defaults)
    yield from _step_keys(group)


def _converter_keys(
    group: _Group, registry: PluginRegistry, defaults: Mapping[str, Any]
) -> Iterator[ConfigKey]:
    for part, kind in _CONVERTERS.items():
        name, title = f"{part}.converter", part.capitalize()
        yield group.key(
            name,
            ConfigType.CLASS,
            defaults.get(name),
            _LOW,
            f"{title} converter class",
            f"The class that converts the {part} between Connect's data and bytes; the runner's "
            "converter when it is not set.",
            class_check=PluginClass(registry, kind),
            recommender=_names(registry, kind),
        )
        version = f"{name}.plugin.version"
        yield group.key(
            version,
            ConfigType.STRING,
            defaults.get(version),
            _LOW,
            f"{title} converter version",
            f"The version of the {part} converter.",
            recommender=versions_of(registry, name, kind),
            visibility=is_given(name),
        )


def _step_keys(group: _Group) -> Iterator[ConfigKey]:
    """Return transformations, predicates, and the last common property."""
    for name, title, noun in (
        ("transforms", TRANSFORMS, "transformation"),
        ("predicates", PREDICATES, "predicate"),
    ):
        yield group.key(
            name,
            ConfigType.LIST,
            [],
            _LOW,
            title,
            f"The names of the connector's {noun}s, in their order; {name}.NAME.type is the class.",
            group=title,
            width=Width.LONG,
            validator=distinct_aliases,
        )
    yield group.key(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        _LOW,
        "Reload Action",
        "The action after a value of a configuration provider has expired: none or restart.",
        width=Width.MEDIUM,
        validator=OneOf(("none", "restart")),
    )


_CONVERTERS: Final = {
    "key": PluginKind.CONVERTER,
    "value": PluginKind.CONVERTER,
    "header": PluginKind.HEADER_CONVERTER,
}


def _names(registry: PluginRegistry, kind: PluginKind) -> Recommender:
    def recommend(_parsed: Mapping[str, ParsedValue]) -> Sequence[str]:
        return [plugin.class_name for plugin in registry.plugins(kind)]

    return recommend


def versions_of(registry: PluginRegistry, class_key: str, *kinds: PluginKind) -> Recommender:
    """Return a recommender of the versions of the class that a property names."""

    def recommend(parsed: Mapping[str, ParsedValue]) -> Sequence[str]:
        try:
            return [registry.find(str(parsed.get(class_key)), *kinds).version]
        except PluginNotFoundError:
            return []

    return recommend


def is_given(name: str) -> Visibility:
    """Return the condition that a property has a value."""
    return lambda parsed: parsed.get(name) is not None


def _error_keys() -> Iterator[ConfigKey]:
    group = _Group(ERRORS)
    yield group.key(
        "errors.retry.timeout",
        ConfigType.LONG,
        0,
        _MEDIUM,
        "Retry Timeout for Errors",
        "The time in ms in which a failed operation is repeated: 0 for never, -1 without limit.",
        width=Width.MEDIUM,
    )
    yield group.key(
        "errors.retry.delay.max.ms",
        ConfigType.LONG,
        60_000,
        _MEDIUM,
        "Maximum Delay Between Retries for Errors",
        "The longest delay in ms between two attempts.",
        width=Width.MEDIUM,
    )
    yield group.key(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        _MEDIUM,
        "Error Tolerance",
        "none fails the task at the first record that cannot be processed; all skips such records.",
        validator=OneOf(("none", "all")),
    )
    yield group.key(
        "errors.log.enable",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Log Errors",
        "True logs every failed operation, also those that are tolerated.",
    )
    yield group.key(
        "errors.log.include.messages",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Log Error Details",
        "True logs the place of the failed record: topic, partition, offset, timestamp.",
    )


def connector_definition(
    registry: PluginRegistry, kind: PluginKind, defaults: Mapping[str, Any]
) -> ConfigDef:
    """Return the properties of all connectors of a kind, without those of their classes."""
    own = sink_keys() if kind is PluginKind.SINK else source_keys()
    return ConfigDef([*base_keys(registry, defaults), *own, *engine_keys()])
