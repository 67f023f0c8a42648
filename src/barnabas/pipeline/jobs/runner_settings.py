"""The settings of a runner: the properties of Connect's distributed worker, and barnabas's own.

A `connect-distributed.properties` file is accepted. Unlike Java's worker, nothing is required:
group, topics and converters have defaults. Properties that mean something to Java only are those
of the worker of Java's connectors (`plugin.path`), and are ignored without one.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import attrs

from barnabas.client.client_config import ClientConfig
from barnabas.config import ConfigError, properties_file
from barnabas.pipeline.connect.config_providers import ProviderLimits
from barnabas.pipeline.connect.connectors.spark_sink import TABLE_FORMATS
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, OneOf, clean_name
from barnabas.pipeline.jobs.core.job_supervision import RestartPolicy
from barnabas.pipeline.jobs.job_config import RunnerDefaults

_SECURITY: Final = ("security.", "sasl.", "ssl.", "enable.ssl.")
_ACL_PROPERTIES: Final = ("super.users", "allow.everyone.if.no.acl.found")
_HTTP: Final = (
    "barnabas.http.auth",
    "barnabas.authentication.timeout.ms",
    "barnabas.unauthenticated.connections.max",
    "barnabas.http.peer.secret",
)
_NOT_OF_JAVA: Final = (
    *_SECURITY,
    *_ACL_PROPERTIES,
    "barnabas.",
    "spark.",
    "bootstrap.",
    "listeners",
    "rest.",
    "admin.listeners",
    "config.providers",
)
"""What the runner uses itself, or gives to Java's worker in another form."""
_CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
_BROKER_DEFAULT: Final = -1
_PARTITIONS: Final = {"offset": 25, "status": 5}
_LOW: Final = Importance.LOW


def _key(name: str, kind: ConfigType, default: Any, text: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, kind, default, _LOW, text, **more)


def _known_formats(name: str, value: ParsedValue) -> None:
    for each in value if isinstance(value, list) else ():
        OneOf(TABLE_FORMATS)(name, each)


DEFINITION: Final = ConfigDef(
    [
        _key(
            "group.id",
            ConfigType.STRING,
            "barnabas-pipelines",
            "The group of runners that share jobs; one of them is active.",
            validator=clean_name,
        ),
        _key(
            "config.storage.topic",
            ConfigType.STRING,
            "connect-configs",
            "The topic of configurations: one partition, compacted.",
            validator=clean_name,
        ),
        _key(
            "offset.storage.topic",
            ConfigType.STRING,
            "connect-offsets",
            "The topic of source connectors' positions, compacted.",
            validator=clean_name,
        ),
        _key(
            "status.storage.topic",
            ConfigType.STRING,
            "connect-status",
            "The topic of states, compacted.",
            validator=clean_name,
        ),
        *(
            _key(
                f"{topic}.storage.replication.factor",
                ConfigType.SHORT,
                _BROKER_DEFAULT,
                f"The replication factor of the {topic} topic; -1 is the brokers' default.",
            )
            for topic in ("config", "offset", "status")
        ),
        *(
            _key(
                f"{topic}.storage.partitions",
                ConfigType.INT,
                count,
                f"The number of partitions of the {topic} topic.",
                validator=InRange(1),
            )
            for topic, count in _PARTITIONS.items()
        ),
        _key(
            "topic.tracking.enable",
            ConfigType.BOOLEAN,
            True,
            "True keeps the topics that each connector uses.",
        ),
        _key(
            "topic.tracking.allow.reset",
            ConfigType.BOOLEAN,
            True,
            "True allows a request to clear the topics of a connector.",
        ),
        _key(
            "barnabas.restart.max",
            ConfigType.INT,
            -1,
            "Restarts in a row of a failed job: -1 for no limit, 0 for none, as in Java's Connect.",
            validator=InRange(-1),
        ),
        _key(
            "barnabas.http.auth",
            ConfigType.STRING,
            "",
            "kafka: requests need a user and password of the Kafka cluster, as with --auth kafka.",
            validator=OneOf(("", "kafka")),
        ),
        _key(
            "barnabas.authentication.timeout.ms",
            ConfigType.INT,
            30_000,
            "Milliseconds that each step of an HTTP connection may take until it is authenticated.",
            validator=InRange(1),
        ),
        _key(
            "barnabas.unauthenticated.connections.max",
            ConfigType.INT,
            500,
            "HTTP connections that may be unauthenticated at a time; one more closes the oldest.",
            validator=InRange(1),
        ),
        _key(
            "barnabas.http.peer.secret",
            ConfigType.PASSWORD,
            "",
            "What runners prove the address of a first caller with; by default the password of "
            "their Kafka user.",
        ),
        _key(
            "barnabas.rest.full.users",
            ConfigType.LIST,
            None,
            "The users that may change something; all others may only read. By default every user "
            "may.",
        ),
        _key(
            "barnabas.rest.authorize",
            ConfigType.BOOLEAN,
            False,
            "True allows a change of a job only to a user with the ACLs on the job's topics.",
        ),
        _key(
            "config.providers.allowed.paths",
            ConfigType.LIST,
            [],
            "Files and directories that ${file:..} and ${dir:..} may read, with what is below.",
        ),
        _key(
            "config.providers.allowed.env",
            ConfigType.LIST,
            [],
            "Patterns of the environment variables that ${env:..} may read.",
        ),
        _key(
            "checkpoint.dir",
            ConfigType.STRING,
            None,
            "Where jobs with state keep it; all hosts of a cluster must share it. By default a "
            "temporary directory, and with SQL barnabas/pipelines in the user's state directory.",
        ),
        _key(
            "lake.formats",
            ConfigType.LIST,
            [],
            "The table formats of SparkSink and SparkSource whose libraries the runner fetches "
            "once: delta, iceberg.",
            validator=_known_formats,
        ),
        _key(
            "barnabas.sql.enable",
            ConfigType.BOOLEAN,
            False,
            "True runs SQL on the runner, as --sql does: a stored catalog, and queries as jobs.",
        ),
        _key(
            "barnabas.sql.storage.topic",
            ConfigType.STRING,
            "_barnabas_sql_commands",
            "The topic of SQL's catalog: one partition, compacted.",
            validator=clean_name,
        ),
        _key(
            "barnabas.sql.storage.replication.factor",
            ConfigType.SHORT,
            _BROKER_DEFAULT,
            "The replication factor of the topic of SQL's catalog; -1 is the brokers' default.",
        ),
        _key(
            "ksql.schema.registry.url",
            ConfigType.STRING,
            "",
            "The schema registry of SQL's formats AVRO, PROTOBUF and JSON_SR.",
        ),
        _key(
            "plugin.path",
            ConfigType.LIST,
            [],
            "Directories of Java's plug-ins: each plug-in is a directory with its jars, or one "
            "jar. With them the runner runs a worker of Apache Kafka's Connect for the connectors "
            "that barnabas does not have.",
        ),
        _key(
            "barnabas.java.options",
            ConfigType.STRING,
            "-Xmx512m",
            "Options of the JVM of Java's worker, separated by spaces.",
        ),
        _key(
            "view.dir",
            ConfigType.STRING,
            None,
            "The local directory of views, in one directory for each group.id. By default it is "
            "barnabas/views in the user's cache directory.",
        ),
    ]
)


@attrs.frozen
class StorageTopic:
    """One of Connect's topics. A replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int


@attrs.frozen
class SqlSettings:
    """SQL on the runner."""

    catalog: StorageTopic
    registry: str
    """The address of the schema registry, or an empty text."""


@attrs.frozen
class JavaSettings:
    """The worker of Java's connectors."""

    plugin_path: tuple[str, ...]
    jvm_options: tuple[str, ...]
    worker_properties: Mapping[str, str] = attrs.field(repr=False)
    """The properties of the runner that mean something to Java's worker only."""


@attrs.frozen
class RunnerSettings:
    """All settings of a runner except its HTTP listener."""

    group_id: str
    configs: StorageTopic
    offsets: StorageTopic
    status: StorageTopic
    client: ClientConfig
    client_properties: Mapping[str, str]
    """The properties of all Kafka clients, `bootstrap.servers` included."""
    defaults: RunnerDefaults
    restarts: RestartPolicy
    providers: ProviderLimits
    tracks_topics: bool
    allows_topics_reset: bool
    checkpoint_directory: str | None
    lake_formats: tuple[str, ...]
    """The table formats whose libraries the session has."""
    view_directory: Path
    """Where views of this group keep their rows."""
    http_properties: Mapping[str, str] = attrs.field(repr=False)
    """The properties of the HTTP listener that are set."""
    full_users: tuple[str, ...] | None
    """The users that may change something; None: all."""
    authorizes: bool
    acl_properties: Mapping[str, str]
    """What the brokers' authorizer has beside ACLs, by the names of its properties."""
    spark_properties: Mapping[str, str]
    """The properties of Spark's session: `spark.*`."""
    java: JavaSettings | None = None
    """None without `plugin.path`."""
    sql: SqlSettings | None = None
    """None for a runner without SQL."""

    @classmethod
    def load(cls, file: Path | None, overrides: Mapping[str, str]) -> "RunnerSettings":
        """Read a properties file, if one is given, under the overrides. Raises ConfigError."""
        properties = properties_file.read(file) if file is not None else {}
        return cls.from_properties({**properties, **overrides})

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "RunnerSettings":
        """Return the settings that properties describe. Raises ConfigError."""
        try:
            parsed = DEFINITION.parse(properties)
        except ConfigValueError as error:
            raise ConfigError(str(error)) from None
        client = _client_properties(properties)
        config = ClientConfig.from_properties(client)
        defaults = RunnerDefaults(
            group_id=str(parsed["group.id"]),
            bootstrap=",".join(map(str, config.bootstrap)),
            offsets_topic=str(parsed["offset.storage.topic"]),
            client_properties={k: v for k, v in client.items() if k != "bootstrap.servers"},
            consumer_properties=_prefixed(properties, "consumer."),
            producer_properties=_prefixed(properties, "producer."),
            converter_properties=_converters(properties),
        )
        return cls(
            group_id=defaults.group_id,
            configs=_topic(parsed, "config", 1),
            offsets=_topic(parsed, "offset", parsed["offset.storage.partitions"]),
            status=_topic(parsed, "status", parsed["status.storage.partitions"]),
            client=config,
            client_properties=client,
            defaults=defaults,
            restarts=_restarts(parsed["barnabas.restart.max"]),
            providers=_limits(parsed),
            tracks_topics=parsed["topic.tracking.enable"] is True,
            allows_topics_reset=parsed["topic.tracking.allow.reset"] is True,
            checkpoint_directory=_checkpoint_directory(parsed, defaults.group_id),
            lake_formats=_names(parsed["lake.formats"]),
            view_directory=_view_directory(_optional(parsed["view.dir"]), defaults.group_id),
            http_properties={k: properties[k] for k in _HTTP if properties.get(k)},
            full_users=_users(parsed["barnabas.rest.full.users"]),
            authorizes=parsed["barnabas.rest.authorize"] is True,
            acl_properties={k: properties[k] for k in _ACL_PROPERTIES if k in properties},
            spark_properties={k: v for k, v in properties.items() if k.startswith("spark.")},
            java=_java(parsed, properties),
            sql=_sql(parsed),
        )


def _client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in properties.items() if name.startswith(_SECURITY)}
    found["bootstrap.servers"] = properties.get("bootstrap.servers", "127.0.0.1:9092")
    return found


def _sql(parsed: Mapping[str, ParsedValue]) -> SqlSettings | None:
    if parsed["barnabas.sql.enable"] is not True:
        return None
    return SqlSettings(_topic(parsed, "barnabas.sql", 1), str(parsed["ksql.schema.registry.url"]))


def _java(parsed: Mapping[str, ParsedValue], properties: Mapping[str, str]) -> JavaSettings | None:
    """Return the settings of Java's worker. Raises ConfigError."""
    path = _names(parsed["plugin.path"])
    if not path:
        return None
    name = "barnabas.java.options"
    try:
        options = tuple(shlex.split(str(parsed[name])))
    except ValueError as error:
        raise ConfigError(f"Invalid value {parsed[name]} for {name}: {error}") from None
    return JavaSettings(
        path,
        options,
        {
            name: value
            for name, value in properties.items()
            if name not in DEFINITION.keys and not name.startswith(_NOT_OF_JAVA)
        },
    )


def _prefixed(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def _converters(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the runner's converters with their own properties."""
    given = {
        name: value
        for name, value in properties.items()
        if any(name == each or name.startswith(f"{each}.") for each in _CONVERTERS)
    }
    return {**_CONVERTERS, **given}


def _topic(parsed: Mapping[str, ParsedValue], kind: str, partitions: ParsedValue) -> StorageTopic:
    factor = parsed[f"{kind}.storage.replication.factor"]
    return StorageTopic(
        str(parsed[f"{kind}.storage.topic"]),
        partitions if isinstance(partitions, int) else 1,
        factor if isinstance(factor, int) else _BROKER_DEFAULT,
    )


def _users(parsed: ParsedValue) -> tuple[str, ...] | None:
    return tuple(map(str, parsed)) if isinstance(parsed, list) else None


def _restarts(count: ParsedValue) -> RestartPolicy:
    limit = count if isinstance(count, int) and count >= 0 else None
    return RestartPolicy(restarts_max=limit)


def _limits(parsed: Mapping[str, ParsedValue]) -> ProviderLimits:
    paths, variables = (parsed[f"config.providers.allowed.{kind}"] for kind in ("paths", "env"))
    return ProviderLimits(
        [Path(each) for each in paths] if isinstance(paths, list) else [],
        variables if isinstance(variables, list) else [],
    )


def _checkpoint_directory(parsed: Mapping[str, ParsedValue], group_id: str) -> str | None:
    """Return where jobs keep state: with SQL, by default, a directory that outlives the runner."""
    given = _optional(parsed["checkpoint.dir"])
    if given is not None or parsed["barnabas.sql.enable"] is not True:
        return given
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return str(Path(state) / "barnabas" / "pipelines" / quote(group_id, safe=""))


def _view_directory(given: str | None, group_id: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(given) if given else Path(cache) / "barnabas" / "views"
    return directory / quote(group_id, safe="")


def _names(value: ParsedValue) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _optional(value: ParsedValue) -> str | None:
    return None if value is None else str(value)
