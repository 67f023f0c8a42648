"""`barnabas serve --secure`: the users of nodes and their companions, and what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.cli.node_options import address_of, properties_of
from barnabas.cluster.metadata.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPattern,
    ResourceType,
)
from barnabas.config import ConfigError, NodeConfig
from barnabas.server.node.initial_users import Grant
from barnabas.server.node.secured_files import SecuredFiles
from barnabas.server.node.secured_node import SecuredNode, refuse_decided
from barnabas.server.node.secured_users import ADMIN, OnPassword, SecuredUser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.server.node_group.secured_group import SecuredGroup

_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_STORED: Final = (
    AclOperation.CREATE,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE_CONFIGS,
)
_READ, _WRITE = (AclOperation.READ,), (AclOperation.WRITE,)
_PREFIXED = AclPattern.PREFIXED
_GRANTS: Final[Mapping[str, tuple[Grant, ...]]] = {
    "registry": (
        Grant(ResourceType.TOPIC, "_schemas", _STORED),
        Grant(ResourceType.GROUP, "schema-registry", _READ),
    ),
    # Connect's own topics, groups and transactions; what jobs read and write is granted by hand.
    "pipelines": (
        Grant(ResourceType.TOPIC, "connect-", _STORED, _PREFIXED),
        Grant(ResourceType.TOPIC, "_barnabas_sql_commands", _STORED),
        Grant(ResourceType.GROUP, "connect-", _READ, _PREFIXED),
        Grant(ResourceType.GROUP, "barnabas-pipelines", _READ, _PREFIXED),
        Grant(ResourceType.TRANSACTIONAL_ID, "connect-", _WRITE, _PREFIXED),
        Grant(ResourceType.TRANSACTIONAL_ID, "barnabas-pipelines", _WRITE, _PREFIXED),
    ),
}
_READ_ACLS: Final = Grant(ResourceType.CLUSTER, CLUSTER_NAME, (AclOperation.DESCRIBE,))
_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "registry": {},
    # A job reads and writes files and databases with the rights of the runner's process: a user
    # that may create one could read the administrator's password.
    "pipelines": {"barnabas.rest.full.users": ADMIN},
}
_AUTHORIZED: Final[Mapping[str, Sequence[str]]] = {
    "registry": ("--authorize",),
    "pipelines": ("--set", "barnabas.rest.authorize=true"),
}


def secured(
    data: Path | None,
    listen: str | None,
    pairs: tuple[str, ...],
    companions: Mapping[str, Path | None],
) -> tuple[NodeConfig, SecuredNode]:
    """Return the configuration of a secured node, and what prepares it.

    `companions` are the processes beside it, each with a file of further properties. Raises
    ConfigError and OSError.
    """
    host, port = address_of(listen or _DEFAULT_ADDRESS)
    given = properties_of(pairs)
    refuse_decided(given)
    if data is not None:
        given["log.dirs"] = str(data)
    directory = NodeConfig.read(None, given).log_dirs[0]
    node = SecuredNode(directory, _users(companions, given), _password_printer(directory))
    if node.files.nodes_key.exists():
        raise ConfigError(f"{directory} is the directory of several nodes: add --nodes")
    config = NodeConfig.load(None, {**node.properties(host, port), **given})
    node.prepare_certificate(config)
    return config, node


def secured_group(
    directory: Path, pairs: tuple[str, ...], companions: Mapping[str, Path | None]
) -> SecuredGroup:
    """Return the security of a group in a directory, with companions as `secured` has them.

    Raises ConfigError.
    """
    from barnabas.server.node_group.secured_group import SecuredGroup

    given = properties_of(pairs)
    group = SecuredGroup(directory, _users(companions, given), _password_printer(directory))
    refuse_decided(given, group.properties())
    return group


def _users(companions: Mapping[str, Path | None], given: Mapping[str, str]) -> list[SecuredUser]:
    """Return the companions' users; the settings of their files are those of the authorizer."""
    decided = {"super.users": f"User:{ADMIN}"}
    if _WITHOUT_ACL in given:
        decided[_WITHOUT_ACL] = given[_WITHOUT_ACL]
    return [
        SecuredUser(name, _GRANTS[name], [_READ_ACLS], {**decided, **_SETTINGS[name]}, extra)
        for name, extra in companions.items()
    ]


def companion_options(files: SecuredFiles, name: str, file_option: str) -> list[str]:
    """Return the options of a companion's command: its client's file, https, the node's users."""
    return [
        *(file_option, str(files.client_file(name))),
        *("--tls-certificate", str(files.node_key), "--tls-key", str(files.node_key)),
        *("--auth", "kafka", *_AUTHORIZED[name]),
    ]


def _password_printer(directory: Path) -> OnPassword:
    def show(password: str) -> None:
        print(
            f"The user {ADMIN} has the password {password}\n"
            "It is shown once. Clients connect with the settings in "
            f"{directory / f'{ADMIN}.conf'} (librdkafka) or "
            f"{directory / f'{ADMIN}.properties'} (Java).",
            flush=True,
        )

    return show
