"""The files that a worker reads: its properties, and the password of its REST API.

They hold the secrets of the runner's Kafka client, so they are readable by their owner only, in a
directory that is made for one start of the worker and removed at its end.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from barnabas.client.client_config import ClientConfig
from barnabas.config import ConfigError
from barnabas.pipeline.delivery.plan.kafka_properties import for_java
from barnabas.pipeline.jobs.runner_settings import JavaSettings, RunnerSettings, StorageTopic
from barnabas.private_files import write_new_file

USER: Final = "runner"
_SUFFIX: Final = "-java"
_CLIENTS: Final = ("", "producer.", "consumer.", "admin.")
_EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension"
_PROVIDERS: Final = "org.apache.kafka.common.config.provider"
_ALLOWED: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
_DEFAULTS: Final = {
    # The tasks of a worker that was killed are not kept for it.
    "scheduled.rebalance.max.delay.ms": "0",
    "exactly.once.source.support": "enabled",
    # A worker that is killed repeats what its sinks have written since their last commit.
    "offset.flush.interval.ms": "10000",
    # The group of a sink waits this long for the consumers of a worker that was killed.
    "consumer.session.timeout.ms": "10000",
}


def worker_group(settings: RunnerSettings) -> RunnerSettings:
    """Return the settings of a store that replays the worker's topics."""
    return attrs.evolve(
        settings,
        group_id=settings.group_id + _SUFFIX,
        configs=_renamed(settings.configs),
        status=_renamed(settings.status),
    )


def _renamed(topic: StorageTopic) -> StorageTopic:
    return attrs.evolve(topic, name=topic.name + _SUFFIX)


@attrs.frozen
class WorkerFiles:
    """The files of one start."""

    properties: Path
    login: Path
    """The configuration of JAAS that names the file with the password."""


def write_files(
    directory: Path, settings: RunnerSettings, java: JavaSettings, password: str
) -> WorkerFiles:
    """Write the files into a private directory. Raises ConfigError, OSError."""
    files = WorkerFiles(directory / "worker.properties", directory / "login.conf")
    passwords = directory / "passwords.properties"
    write_new_file(passwords, properties_text({USER: password}))
    module = f"{_EXTENSION}.PropertyFileLoginModule"
    write_new_file(files.login, f'KafkaConnect {{\n  {module} required file="{passwords}";\n}};\n')
    write_new_file(files.properties, properties_text(worker_properties(settings, java)))
    return files


def token_options(settings: RunnerSettings) -> list[str]:
    """Return the options of the JVM that allow the runner's address of tokens.

    Java's clients of Kafka 4 use no other address.
    """
    login = None if settings.client.sasl is None else settings.client.sasl.login
    if login is None:
        return []
    files = [] if login.file is None else [f"{_ALLOWED}.files={login.file}"]
    return [f"{_ALLOWED}.urls={login.url}", *files]


def worker_properties(settings: RunnerSettings, java: JavaSettings) -> dict[str, str]:
    """Return the properties of the worker. Raises ConfigError."""
    group = worker_group(settings)
    client = for_java(_with_certificate(settings.client_properties))
    return {
        **_DEFAULTS,
        **settings.defaults.converter_properties,
        **{f"{prefix}{name}": value for prefix in _CLIENTS for name, value in client.items()},
        **java.worker_properties,
        **_topic("config", group.configs),
        **_topic("offset", group.offsets),
        **_topic("status", group.status),
        **_providers(settings),
        "bootstrap.servers": client["bootstrap.servers"],
        "group.id": group.group_id,
        "topic.tracking.enable": _flag(settings.tracks_topics),
        "topic.tracking.allow.reset": _flag(settings.allows_topics_reset),
        "plugin.path": ",".join(java.plugin_path),
        "listeners": "http://127.0.0.1:0",
        "rest.extension.classes": f"{_EXTENSION}.BasicAuthSecurityRestExtension",
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _topic(kind: str, topic: StorageTopic) -> dict[str, str]:
    found = {
        f"{kind}.storage.topic": topic.name,
        f"{kind}.storage.replication.factor": str(topic.replication_factor),
    }
    if kind != "config":
        found[f"{kind}.storage.partitions"] = str(topic.partitions)
    return found


def _providers(settings: RunnerSettings) -> dict[str, str]:
    """Return Java's providers of values, with the limits of the runner's."""
    limits = settings.providers
    paths = ",".join(map(str, limits.paths))
    found: dict[str, dict[str, str]] = {}
    if limits.paths:
        found["file"] = {"class": f"{_PROVIDERS}.FileConfigProvider", "param.allowed.paths": paths}
        found["dir"] = {
            "class": f"{_PROVIDERS}.DirectoryConfigProvider",
            "param.allowed.paths": paths,
        }
    if limits.variables:
        pattern = "|".join(f"(?:{each})" for each in limits.variables)
        found["env"] = {
            "class": f"{_PROVIDERS}.EnvVarConfigProvider",
            "param.allowlist.pattern": pattern,
        }
    properties = {
        f"config.providers.{name}.{key}": value
        for name, provider in found.items()
        for key, value in provider.items()
    }
    return {"config.providers": ",".join(found), **properties} if found else {}


def _with_certificate(properties: Mapping[str, str]) -> dict[str, str]:
    """Return client properties with the certificate and its key as texts.

    Java's clients read both from one file, where librdkafka has a file for each. Raises
    ConfigError.
    """
    tls = ClientConfig.from_properties(properties).tls
    if tls is None or not tls.key_file or not tls.certificate_file or tls.key_text:
        return dict(properties)
    left = {
        name: value
        for name, value in properties.items()
        if name not in ("ssl.certificate.location", "ssl.key.location")
    }
    try:
        left["ssl.certificate.pem"] = Path(tls.certificate_file).read_text()
        left["ssl.key.pem"] = Path(tls.key_file).read_text()
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
    return left


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a properties file as Java reads it."""
    lines: Iterable[str] = (
        f"{_escaped(name, is_name=True)}={_escaped(value)}\n" for name, value in properties.items()
    )
    return "".join(lines)


_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _escaped(text: str, *, is_name: bool = False) -> str:
    special = " =:#!" if is_name else ""
    found: list[str] = []
    for place, character in enumerate(text):
        if character in _ESCAPES:
            found.append(_ESCAPES[character])
        elif character in special or (character == " " and place == 0):
            found.append(f"\\{character}")
        elif " " <= character <= "~":
            found.append(character)
        else:
            units = character.encode("utf-16-be").hex()
            found += [f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)]
    return "".join(found)
