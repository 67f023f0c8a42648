"""Validation of AlterConfigs and IncrementalAlterConfigs, by kind of resource.

Each function takes the properties that the resource would have afterwards, or those that
change where it says so, and raises `ConfigError`. Kafka answers INVALID_CONFIG for topics,
groups and client metrics, and INVALID_REQUEST for brokers and where `ConfigRequestError` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.node_config import NodeConfig, lookup
from barnabas.config.properties.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from barnabas.config.properties.group_properties import GROUP_PROPERTIES
from barnabas.config.schema import ConfigError, ConfigRequestError, Dynamic
from barnabas.config.topic_config import check_local_retention, validate_topic_overrides
from barnabas.config.unsupported import LIMITS_OF_CONNECTIONS, refuse_change
from barnabas.config.value_rules import check_values

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "validate_broker_changes",
    "validate_client_metrics",
    "validate_group_overrides",
    "validate_topic_overrides",
]

# Kafka lets a running broker at most double or halve its threads (`DynamicThreadPool`).
_THREADS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)

_MATCH_KEYS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate_broker_changes(
    changes: Mapping[str, str | None], node: NodeConfig, *, cluster_default: bool
) -> None:
    """Validate a change of broker properties: of one broker, or of the cluster's default.

    None as a value unsets the property. A name that no table holds is accepted, as in Kafka:
    it may belong to a plugin.
    """
    rows = {name: lookup(name) for name in changes}
    fixed = sorted(n for n, row in rows.items() if row and row.dynamic is Dynamic.READ_ONLY)
    if fixed:
        raise ConfigError(
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]", name=fixed[0]
        )
    bare = sorted(name for name in changes if name.startswith(("ssl.keystore", "ssl.truststore")))
    bare += ["ssl.key.password"] if "ssl.key.password" in changes else []
    if bare:
        raise ConfigError(
            f"These security configs can be set only for one listener: [{', '.join(bare)}]; "
            f"set listener.name.<listener>.{bare[0]}",
            name=bare[0],
        )
    own = sorted(n for n, row in rows.items() if row and row.dynamic is Dynamic.PER_BROKER)
    if cluster_default and own:
        raise ConfigError(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(own)}]",
            name=own[0],
        )
    for name, text in changes.items():
        row = rows[name]
        if row is not None and text is not None and row.parse(text) == 0:
            _refuse_no_connections(name, row.name)
    _check_result(changes, node, cluster_default=cluster_default)
    for name, text in changes.items():
        row = rows[name]
        if row is not None and text is not None:
            refuse_change(name, row, node)


def _refuse_no_connections(name: str, base_name: str) -> None:
    """Raise ConfigError for a limit of 0, which a file may have (`ListenerConnectionQuota`)."""
    if base_name in LIMITS_OF_CONNECTIONS:
        raise ConfigError(
            f"Invalid value 0 for configuration {name}: no client could connect then, not even "
            "to change it again; set it to at least 1",
            name=name,
        )


def _check_result(
    changes: Mapping[str, str | None], node: NodeConfig, *, cluster_default: bool
) -> None:
    base = node.cluster_dynamic if cluster_default else node.broker_dynamic
    result = {name: text for name, text in {**base, **changes}.items() if text is not None}
    after = (
        node.with_dynamic(result, node.broker_dynamic)
        if cluster_default
        else node.with_dynamic(node.cluster_dynamic, result)
    )
    check_values(after)
    if any("retention" in name for name in changes):
        check_local_retention(after.topic_defaults, "log.")
    for name in _THREADS:
        now, then = node.get_int(name), after.get_int(name)
        if name in changes and not max(now / 2, 1) <= then <= now * 2:
            raise ConfigError(
                f"Invalid value {then} for configuration {name}: it must be between half and "
                f"double the current value {now}",
                name=name,
            )


def validate_group_overrides(overrides: Mapping[str, str | None], node: NodeConfig) -> None:
    """Validate the properties of a group against the bounds that the broker sets."""
    values: dict[str, int] = {}
    for name, text in overrides.items():
        row = GROUP_PROPERTIES.get(name)
        if row is None:
            raise ConfigError(f"Unknown group config name: {name}", name=name)
        value = row.parse(text or "")
        if not row.synonyms:
            continue
        values[name] = value
        for bound, fails in (("min", value.__lt__), ("max", value.__gt__)):
            limit_name = _bound(name, bound)
            limit = node.get(limit_name) if lookup(limit_name) else None
            if limit is not None and fails(limit):
                side = "greater" if bound == "min" else "less"
                raise ConfigError(
                    f"{name} must be {side} than or equal to {limit_name} ({limit}), not {value}",
                    name=name,
                )
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in values and heartbeat not in values:
            continue
        longest = values[session] if session in values else node.get_int(f"group.{session}")
        pause = values[heartbeat] if heartbeat in values else node.get_int(f"group.{heartbeat}")
        if longest <= pause:
            raise ConfigError(f"{session} must be greater than {heartbeat}", name=session)


def _bound(name: str, bound: str) -> str:
    """Return the name of the broker property that bounds a group property."""
    if name == "streams.num.standby.replicas":
        name = "streams.standby.replicas"
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{bound}.{rest}"


def validate_client_metrics(overrides: Mapping[str, str | None]) -> None:
    """Validate the properties of a client metrics subscription (KIP-714)."""
    for name, text in overrides.items():
        row = CLIENT_METRICS_PROPERTIES.get(name)
        if row is None:
            raise ConfigRequestError(f"Unknown client metrics configuration: {name}", name=name)
        value = row.read(text or "")
        try:
            row.check(value, text)
        except ConfigError as error:
            if name != "interval.ms":
                raise
            raise ConfigRequestError(error.message, name=name) from None
        if name == "match":
            for rule in value:
                _check_rule(rule)


def _check_rule(rule: str) -> None:
    import re2

    key, _, pattern = rule.rstrip("=").partition("=")
    valid = "=" not in pattern and key.strip() in _MATCH_KEYS and bool(pattern.strip())
    if valid:
        options = re2.Options()
        options.log_errors = False  # the client gets the error
        try:
            re2.compile(pattern.strip(), options)
        except re2.error:
            valid = False
    if not valid:
        raise ConfigError(f"Illegal client matching pattern: {rule}", name="match")
