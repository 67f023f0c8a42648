"""An in-process node: `with Node() as node: ...node.bootstrap...`."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Self

import trio

from barnabas.config import NodeConfig
from barnabas.server.node.node import Node as ServerNode
from barnabas.server.node.startup_checks import first_error
from barnabas.testing.node_security import ADMIN, NodeSecurity, Security
from barnabas.testing.server_context import ServerContext, bootstrap_of, kept_records

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0


class Node(ServerContext):
    """A node in a background thread with its own event loop, on free ports of 127.0.0.1.

    `data` is a directory to use and keep; without one the data is temporary and removed by
    `close`. `config` holds Kafka's properties; without a retention by time (`log.retention.hours`,
    say), the node keeps records of any age. With `security` the node has TLS, users and ACLs.
    `start`, `stop` and `kill` may follow each other: the node comes back on the same data and the
    same port.
    """

    def __init__(
        self,
        data: str | Path | None = None,
        config: Mapping[str, str] | None = None,
        security: Security | None = None,
    ) -> None:
        super().__init__(data)
        self._security = NodeSecurity(self.data, security)
        defaults = self._security.properties()
        self._properties = {**defaults, **kept_records(config), "log.dirs": str(self.data)}
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._starting: ServerNode | None = None
        self._started: Future[None] = Future()
        self.server: ServerNode | None = None
        self.port = 0
        self._clients = self._properties["listeners"].partition(":")[0]

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients. Raises RuntimeError before the start."""
        return bootstrap_of(self.port)

    def client_config(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's client, for librdkafka and clients built on it.

        Raises ConfigError when a node with `security` has no such user.
        """
        return {**self._security.client_config(user), "bootstrap.servers": self.bootstrap}

    def java_config(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's client under Java's names. Raises as `client_config`."""
        return {**self._security.java_config(user), "bootstrap.servers": self.bootstrap}

    def start(self) -> Self:
        """Start, and return once clients are served. Raises the error that prevented it."""
        self.launch()
        return self.wait_ready()

    def launch(self) -> None:
        """Begin to start; `wait_ready` returns when clients are served."""
        if self._thread is not None:
            raise RuntimeError("the node is already running")
        properties = dict(self._properties)
        if self.port:  # clients of the stopped node find this one
            any_port = f"{self._clients}://127.0.0.1:0"
            own = f"{any_port.removesuffix('0')}{self.port}"
            properties["listeners"] = properties["listeners"].replace(any_port, own)
        config = NodeConfig.load(None, properties)
        server = ServerNode(config, preparations=self._security.preparations(config))
        self._started = started = Future[None]()
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(
            target=self._run, args=(server, started), name=f"barnabas-{server.node_id}", daemon=True
        )
        self._starting = server
        self._thread.start()

    def wait_ready(self) -> Self:
        """Wait until clients are served. Raises the error that prevented it."""
        server = self._starting
        if server is None or self._thread is None:
            raise RuntimeError("the node was not launched")
        try:
            self._started.result(_START_TIMEOUT_S)
        except BaseException:
            self._end(self._scope.cancel)
            raise
        self.server = server
        # The first is for clients, also where brokers have another one for themselves.
        listeners = server.config.broker_listeners
        if listeners:
            self._clients = listeners[0].name
            self.port = server.bound_port(self._clients)
        return self

    def _run(self, server: ServerNode, started: "Future[None]") -> None:
        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(server.run)
                    started.set_result(None)

        try:
            trio.run(main)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(first_error(error))
        else:
            if not started.done():
                started.set_exception(RuntimeError("the node stopped during its start"))

    def stop(self) -> None:
        """Stop cleanly: answer pending requests, flush logs, write the clean-shutdown marker."""
        server = self.server
        if server is not None:
            self._end(server.stop)

    def kill(self) -> None:
        """Stop abruptly, without a flush and a marker; the next start recovers."""
        self._end(self._scope.cancel)

    def _end(self, action: "object") -> None:
        thread, token = self._thread, self._token
        if thread is None or token is None:
            return
        with suppress(trio.RunFinishedError):  # the node has ended by an error
            token.run_sync_soon(action)  # pyright: ignore[reportArgumentType]
        thread.join(_STOP_TIMEOUT_S)
        if thread.is_alive():
            raise RuntimeError(f"the node did not stop within {_STOP_TIMEOUT_S:.0f} s")
        self._thread = self._token = self.server = None

    def close(self) -> None:
        """Stop the node if it runs, and remove temporary data."""
        try:
            self.stop()
        finally:
            self._remove_temporary_data()
