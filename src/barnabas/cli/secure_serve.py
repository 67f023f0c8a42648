"""`barnabas serve --secure`: the users of nodes and their companions, and what is printed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.cli.node_options import address_of, properties_of
from barnabas.cluster.metadata.acls import AclOperation, AclPattern, ResourceType
from barnabas.config import ConfigError, NodeConfig
from barnabas.private_files import replace_file
from barnabas.server.node.initial_users import Grant
from barnabas.server.node.secured_files import SecuredFiles
from barnabas.server.node.secured_node import SecuredNode, refuse_decided
from barnabas.server.node.secured_users import ADMIN, SecuredUser

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        Grant(ResourceType.GROUP, "connect-", _READ, _PREFIXED),
        Grant(ResourceType.GROUP, "barnabas-pipelines", _READ),
        Grant(ResourceType.TRANSACTIONAL_ID, "connect-", _WRITE, _PREFIXED),
        Grant(ResourceType.TRANSACTIONAL_ID, "barnabas-pipelines", _WRITE, _PREFIXED),
    ),
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
    on_password = partial(_use_password, directory, has_http=bool(companions))
    node = SecuredNode(directory, _users(companions), on_password)
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

    on_password = partial(_use_password, directory, has_http=bool(companions))
    group = SecuredGroup(directory, _users(companions), on_password)
    refuse_decided(properties_of(pairs), group.properties())
    return group


def _users(companions: Mapping[str, Path | None]) -> list[SecuredUser]:
    return [SecuredUser(name, _GRANTS[name], extra) for name, extra in companions.items()]


def companion_options(files: SecuredFiles, name: str, file_option: str) -> list[str]:
    """Return the options of a companion's command: its client's file, https, the administrator."""
    return [
        *(file_option, str(files.client_file(name))),
        *("--tls-certificate", str(files.node_key), "--tls-key", str(files.node_key)),
        *("--password-file", str(files.http_users)),
    ]


def _use_password(directory: Path, password: str, is_new: bool, *, has_http: bool) -> None:
    """Print a new password of the administrator, and keep its hash for the companions."""
    users = SecuredFiles(directory).http_users
    if has_http and (is_new or not users.exists()):
        import bcrypt

        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()
        replace_file(users, f"{ADMIN}:{hashed}\n")
    if is_new:
        print(
            f"The user {ADMIN} has the password {password}\n"
            "It is shown once. Clients connect with the settings in "
            f"{directory / f'{ADMIN}.conf'} (librdkafka) or "
            f"{directory / f'{ADMIN}.properties'} (Java).",
            flush=True,
        )
