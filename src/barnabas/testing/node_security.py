"""Nodes with TLS, users and ACLs for tests: `with Node(security=Security()) as node: ...`."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from barnabas.config import ConfigError, NodeConfig, properties_file

if TYPE_CHECKING:
    from barnabas.server.node.node import Preparation
    from barnabas.server.node.secured_files import SecuredFiles
    from barnabas.server.node.secured_node import SecuredNode
    from barnabas.server.node.secured_users import SecuredUser
    from barnabas.server.node_group.group_plan import GroupPlan
    from barnabas.server.node_group.secured_group import SecuredGroup

ADMIN: Final = "admin"


@attrs.frozen
class Security:
    """TLS, SCRAM and ACLs, as `barnabas serve --secure` has them, also with `--nodes`.

    `admin` may do everything. Each of `users` can log in, and may do what ACLs allow. Raises
    ConfigError when `users` is a string.
    """

    users: Sequence[str] = ()

    def __attrs_post_init__(self) -> None:
        if isinstance(self.users, str):  # a sequence of one-letter names
            given = repr(self.users)
            raise ConfigError(f"users={given} is a string: give a list of names, as [{given}]")


class NodeSecurity:
    """The security of one node of a test. A node without it has the plain listener only."""

    def __init__(self, data: Path, security: Security | None) -> None:
        self._secured = None if security is None else _secured(data, security)

    def properties(self) -> dict[str, str]:
        """Return the node's properties, on free ports of 127.0.0.1."""
        if self._secured is None:
            return {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
        return self._secured.properties("127.0.0.1", 0)

    def preparations(self, config: NodeConfig) -> "Sequence[Preparation]":
        """Make what the node needs, and return what it awaits before it accepts clients."""
        if self._secured is None:
            return ()
        self._secured.prepare_certificate(config)
        return (self._secured.prepare,)

    def client_config(self, user: str) -> dict[str, str]:
        """Return the settings of a user's client. Raises ConfigError when there is no such user."""
        return {} if self._secured is None else client_config(self._secured.files, user)

    def java_config(self, user: str) -> dict[str, str]:
        """Return a user's settings under Java's names. Raises ConfigError as `client_config`."""
        return {} if self._secured is None else java_config(self._secured.files, user)


class ClusterSecurity:
    """The security of a cluster of a test."""

    def __init__(self, data: Path, security: Security) -> None:
        self.group: SecuredGroup = _secured_group(data, security)
        self._plan: GroupPlan | None = None

    def prepare(self, plan: "GroupPlan") -> None:
        """Make what the nodes of a plan need to start. Raises ConfigError and OSError."""
        self._plan = plan
        self.group.prepare_certificates(self._configs(plan))

    def add_users(self) -> None:
        """Add the users that have no file yet, by the running nodes.

        Raises StartupError, ConfigError and OSError.
        """
        plan = self._plan
        if plan is not None:
            # In another thread: that of the test may have an event loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(trio.run, self.group.add_users, plan, self._configs(plan)).result()

    def _configs(self, plan: "GroupPlan") -> list[NodeConfig]:
        return [NodeConfig.load(None, plan.properties(node)) for node in plan.nodes]


def client_config(files: "SecuredFiles", user: str) -> dict[str, str]:
    """Return the settings of a user's client. Raises ConfigError when there is no such user."""
    return _settings(files.librdkafka_file(user), user)


def java_config(files: "SecuredFiles", user: str) -> dict[str, str]:
    """Return a user's settings under Java's names. Raises ConfigError as `client_config`."""
    return _settings(files.client_file(user), user)


def _settings(file: Path, user: str) -> dict[str, str]:
    if not file.exists():
        raise ConfigError(
            f"there are no settings of the user {user}: name it in Security(users=[...]), and start"
            " the node before you ask for them"
        )
    return properties_file.read(file)


# Only secured nodes need what these functions import.


def _secured(data: Path, security: Security) -> "SecuredNode":
    from barnabas.server.node.secured_node import SecuredNode

    return SecuredNode(data, _users(security))


def _secured_group(data: Path, security: Security) -> "SecuredGroup":
    from barnabas.server.node_group.secured_group import SecuredGroup

    return SecuredGroup(data, _users(security))


def _users(security: Security) -> "list[SecuredUser]":
    from barnabas.server.node.secured_users import SecuredUser

    return [SecuredUser(name) for name in security.users]
