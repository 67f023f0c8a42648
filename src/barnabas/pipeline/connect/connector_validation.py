"""Validation of a connector's configuration against all definitions that take part in it.

The definitions are those of all connectors (`connector_definitions`), of the connector's class, of
each transformation and predicate that it names, and of its converters. All errors are collected;
order, messages and counts are those of Apache Kafka 4.3.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.connect.connector_definitions import (
    PREDICATES,
    TRANSFORMS,
    PluginClass,
    connector_definition,
    versions_of,
)
from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    Plugin,
    PluginKind,
    PluginNotFoundError,
    PluginRegistry,
)
from barnabas.pipeline.connect.rest_errors import bad_request
from barnabas.pipeline.connect.secret_masking import masked
from barnabas.pipeline.connect.unused_properties import unused_properties
from barnabas.pipeline.definitions.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigKey,
    ConfigValue,
    Importance,
    Width,
)
from barnabas.pipeline.definitions.config_types import (
    ConfigType,
    ConfigValueError,
    ParsedValue,
    java_text,
    parse_value,
)

Properties = Mapping[str, str | None]

_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_CLIENTS: Final = {
    PluginKind.SINK: ("consumer.override.",),
    PluginKind.SOURCE: ("producer.override.", "admin.override.", "consumer.override."),
}
_CONVERTERS: Final = {
    "header.converter": PluginKind.HEADER_CONVERTER,
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
}


@attrs.frozen
class ConfigInfo:
    """One property of a validation: its definition, None when it is unknown, and its value."""

    key: ConfigKey | None
    value: ConfigValue

    def to_json(self) -> dict[str, Any]:
        """Return the property as REST answers show it."""
        definition = None if self.key is None else self.key.to_json()
        return {"definition": definition, "value": self.value.to_json()}


@attrs.frozen
class ConfigInfos:
    """The result of a validation."""

    name: str
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def errors(self) -> list[str]:
        """All messages, in the order of their properties."""
        return [error for config in self.configs for error in config.value.errors]

    def to_json(self) -> dict[str, Any]:
        """Return the result as REST answers show it."""
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": list(self.groups),
            "configs": [config.to_json() for config in self.configs],
        }


def find_connector(registry: PluginRegistry, config: Properties) -> Plugin:
    """Return the connector of a configuration. Raises ConnectRestError (400)."""
    name = config.get("connector.class")
    if name is None:
        shown = ", ".join(f"{key}={java_text(value)}" for key, value in masked(config).items())
        raise bad_request(f"Connector config {{{shown}}} contains no connector type")
    try:
        return registry.find(name, *CONNECTORS)
    except PluginNotFoundError:
        known = ", ".join(plugin.class_name for plugin in registry.plugins(*CONNECTORS))
        raise bad_request(
            "Failed to find any class that implements Connector and which name matches "
            f"{name}, available connectors are: {known}"
        ) from None


class ConnectorValidator:
    """Validates configurations of connectors for one group of runners."""

    def __init__(
        self, registry: PluginRegistry, group_id: str, converters: Mapping[str, str]
    ) -> None:
        self._registry = registry
        self._group_id = group_id
        self._converters = converters

    def validate(self, config: Properties) -> ConfigInfos:
        """Return the result for a configuration whose secrets are resolved.

        Raises ConnectRestError when its class is unknown.
        """
        plugin = find_connector(self._registry, config)
        definition = connector_definition(
            self._registry, plugin.kind, self._defaults(plugin, config)
        )
        for title, alias_key, kind in (
            (TRANSFORMS, "transforms", PluginKind.TRANSFORMATION),
            (PREDICATES, "predicates", PluginKind.PREDICATE),
        ):
            definition = definition.extended(self._alias_keys(config, title, alias_key, kind))
        values = {value.name: value for value in definition.validate(config)}
        if plugin.kind is PluginKind.SINK:
            _check_topics(config, values)
            self._check_group(config, values)
        _check_nulls(config, values)
        converters = list(self._converter_infos(config, values))
        connector_class = plugin.load()
        connector = connector_class()
        own_definition = connector.config()
        own = {value.name: value for value in own_definition.validate(config)}
        definition = definition.extended(own_definition.keys.values())
        values |= own
        for name, error in (
            *unused_properties(connector_class, plugin.kind, config),
            *_errors_of(connector, own),
        ):
            _add(values, name, config.get(name), error)
        infos = [*_infos(definition, values), *_client_infos(config, plugin.kind), *converters]
        groups = dict.fromkeys([*definition.groups, *_groups(converters)])
        return ConfigInfos(str(config["connector.class"]), tuple(groups), tuple(infos))

    def _defaults(self, plugin: Plugin, config: Properties) -> dict[str, str]:
        """Return the defaults that depend on the runner and on the connector."""
        found = {"connector.plugin.version": plugin.version}
        for name, kind in _CONVERTERS.items():
            converter = self._converters.get(name)
            if converter is not None:
                found[name] = converter
            with contextlib.suppress(PluginNotFoundError):
                used = config.get(name) or converter or ""
                found[f"{name}.plugin.version"] = self._registry.find(used, kind).version
        return found

    def _alias_keys(
        self, config: Properties, title: str, alias_key: str, kind: PluginKind
    ) -> Iterator[ConfigKey]:
        """Return the properties of the transformations or predicates that a connector names."""
        aliases = parse_value(alias_key, config.get(alias_key), ConfigType.LIST)
        for alias in dict.fromkeys(aliases if isinstance(aliases, list) else ()):
            yield from self._keys_of_alias(config, f"{alias_key}.{alias}.", title, alias, kind)

    def _keys_of_alias(
        self, config: Properties, prefix: str, title: str, alias: str, kind: PluginKind
    ) -> Iterator[ConfigKey]:
        class_name = config.get(f"{prefix}type")
        plugin: Plugin | None = None
        if class_name is not None:
            with contextlib.suppress(PluginNotFoundError):
                plugin = self._registry.find(class_name, kind)

        def check(name: str, value: ParsedValue) -> None:
            del name, value
            if f"{prefix}negate" in config and f"{prefix}predicate" not in config:
                raise ConfigValueError(
                    f"Config '{prefix}negate' was provided but there is no config "
                    f"'{prefix}predicate' defining a predicate to be negated."
                )

        group, noun, base = f"{title}: {alias}", kind.value, kind.value.capitalize()
        known = [each.class_name for each in self._registry.plugins(kind)]
        yield ConfigKey(
            f"{prefix}type",
            ConfigType.CLASS,
            NO_DEFAULT,
            Importance.HIGH,
            f"Class for the '{alias}' {noun}.",
            validator=check,
            class_check=PluginClass(self._registry, kind),
            group=group,
            order_in_group=0,
            width=Width.LONG,
            display_name=f"{base} type for {alias}",
            recommender=lambda _parsed: known,
        )
        yield ConfigKey(
            f"{prefix}plugin.version",
            ConfigType.STRING,
            plugin.version if plugin else None,
            Importance.HIGH,
            f"Version of the '{alias}' {noun}.",
            group=group,
            order_in_group=1,
            width=Width.LONG,
            display_name=f"{base} version for {alias}",
            recommender=versions_of(self._registry, f"{prefix}type", kind),
        )
        if plugin is not None:
            implicit = _IMPLICIT_KEYS if kind is PluginKind.TRANSFORMATION else ()
            own = [key for key in _definition_of(plugin).keys.values() if key not in implicit]
            yield from ConfigDef([*implicit, *own]).embedded(prefix, group, 2)

    def _check_group(self, config: Properties, values: dict[str, ConfigValue]) -> None:
        """Refuse a sink whose consumer group is the group of the runners."""
        override = "consumer.override.group.id"
        given = config.get(override)
        if override in config:
            if given == self._group_id:
                _add(
                    values,
                    override,
                    given,
                    f"Consumer group {given} conflicts with Connect worker group {self._group_id}",
                )
        elif self._group_id == f"connect-{config.get('name')}":
            name = config.get("name")
            _add(
                values,
                "name",
                name,
                f"Consumer group for sink connector named {name} conflicts "
                f"with Connect worker group {self._group_id}",
            )

    def _converter_infos(
        self, config: Properties, values: dict[str, ConfigValue]
    ) -> Iterator[ConfigInfo]:
        """Return the properties of the converters that the connector itself names."""
        for name, kind in _CONVERTERS.items():
            class_name = config.get(name)
            if class_name is None or values[name].errors:
                continue
            prefix = f"{name}."
            own = {
                each.removeprefix(prefix): value
                for each, value in config.items()
                if each.startswith(prefix)
            }
            own.setdefault("converter.type", name.partition(".")[0])
            definition = _definition_of(self._registry.find(class_name, kind))
            for value in definition.validate(own):
                key = definition.keys[value.name]
                yield ConfigInfo(
                    key.prefixed(prefix), attrs.evolve(value, name=prefix + value.name)
                )


_IMPLICIT_KEYS: Final = (
    ConfigKey(
        "predicate",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "The name of the predicate that a record must meet to be transformed.",
    ),
    ConfigKey(
        "negate",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "True transforms the records that do not meet the predicate.",
    ),
)


def _definition_of(plugin: Plugin) -> ConfigDef:
    """Return the properties of a plug-in's class."""
    return plugin.load()().config()


def _errors_of(connector: Any, own: Mapping[str, ConfigValue]) -> Iterable[tuple[str, str]]:
    """Return what a connector finds wrong with its own properties, if its class looks."""
    check = getattr(connector, "config_errors", None)
    if check is None:
        return ()
    return check({name: each.value for name, each in own.items() if not each.errors})


def _infos(definition: ConfigDef, values: Mapping[str, ConfigValue]) -> Iterator[ConfigInfo]:
    """Return values without a definition first, as Java does."""
    for name, value in values.items():
        if name not in definition.keys:
            yield ConfigInfo(None, value)
    for name, key in definition.keys.items():
        yield ConfigInfo(key, values[name])


def _groups(infos: Iterable[ConfigInfo]) -> list[str]:
    return [info.key.group for info in infos if info.key is not None and info.key.group]


def _add(values: dict[str, ConfigValue], name: str, value: str | None, error: str) -> None:
    values.setdefault(name, ConfigValue(name, value)).errors.append(error)


def _check_nulls(config: Properties, values: dict[str, ConfigValue]) -> None:
    for name, value in config.items():
        if value is None:
            message = "Null value can not be supplied as the configuration value."
            _add(values, name, None, message)


def _check_topics(config: Properties, values: dict[str, ConfigValue]) -> None:
    """Check the topics of a sink: exactly one way to name them, without its dead letters."""
    topics, pattern = config.get("topics"), config.get("topics.regex")
    has_topics, has_pattern = bool((topics or "").strip()), bool((pattern or "").strip())
    message = None
    if has_topics and has_pattern:
        message = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not has_topics and not has_pattern:
        message = "Must configure one of topics or topics.regex"
    if message is not None:
        _add(values, "topics", topics, message)
        _add(values, "topics.regex", pattern, message)
    dead_letters = (config.get(_DEAD_LETTERS) or "").strip()
    if not dead_letters:
        return
    parsed = parse_value("topics", topics, ConfigType.LIST)
    if isinstance(parsed, list) and dead_letters in parsed:
        shown = ", ".join(dict.fromkeys(filter(None, parsed)))
        _add(
            values,
            "topics",
            topics,
            f"The DLQ topic '{dead_letters}' may not be included in the "
            f"list of topics ('topics=[{shown}]') consumed by the connector",
        )
    if has_pattern and _matches(str(pattern), dead_letters):
        _add(
            values,
            "topics.regex",
            pattern,
            f"The DLQ topic '{dead_letters}' may not be matched "
            f"by the regex for the topics ('topics.regex={pattern}') consumed by the connector",
        )


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return False  # the property's own validator reports it


def _client_infos(config: Properties, kind: PluginKind) -> Iterator[ConfigInfo]:
    """Return the connector's settings of its Kafka clients; the client checks their values."""
    prefixes = _CLIENTS[kind]
    if (config.get(_DEAD_LETTERS) or "").strip():
        prefixes = ("producer.override.", "admin.override.", *prefixes)
    for prefix in prefixes:
        for name, value in config.items():
            if name.startswith(prefix):
                yield ConfigInfo(None, ConfigValue(name, value))
