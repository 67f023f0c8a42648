"""The machine of a node: sockets, data directories, helper processes.

A simulation has its own in place of this class. The order in which the node uses the parts is in
`node` alone.
"""

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.server.api.registry import ListenerKind
from barnabas.server.node.data_directories import open_data
from barnabas.server.storage.disk_threads import DiskThreads
from barnabas.server.transport.acceptor import Limits, Listener, Transport, bind
from barnabas.sockets.file_ranges import read_ahead

if TYPE_CHECKING:
    from barnabas.log import LogManager
    from barnabas.server.node.node import Node
    from barnabas.server.quorum.failure_detector import FailureDetector
    from barnabas.server.transport.login import LoginPolicy


class Machine:
    """The machine of a server's process."""

    def clock(self) -> Clock:
        """Return the machine's clock."""
        return system_clock()

    def disk(self) -> DiskThreads:
        """Return the threads for calls that may block on a disk."""
        return DiskThreads()

    def transport(
        self, limits: Limits, disk: DiskThreads, logins: "Mapping[str, LoginPolicy]"
    ) -> Transport:
        """Return the connections of clients and other nodes."""

        async def read(fd: int, position: int, size: int) -> None:
            await disk.run(read_ahead, fd, position, size)

        return Transport(limits, read, logins)

    def bind(
        self, endpoint: Endpoint, kind: ListenerKind, config: NodeConfig, held: ExitStack
    ) -> Listener:
        """Bind an address; `held` closes it.

        Raises StartupError, and ConfigError when the listener's TLS settings cannot be used.
        """
        tls = None
        if endpoint.security_protocol.endswith("SSL"):
            from barnabas.server.transport.tls_listener import TlsListener

            tls = TlsListener(config, endpoint.name)
        sock = held.enter_context(bind(endpoint, Limits.of(config)))
        return Listener(endpoint, sock, kind, tls)

    def open_data(self, node: "Node") -> "LogManager":
        """Lock and check the data directories, and find their logs. Raises StartupError."""
        return open_data(node)

    def start_helpers(self, node: "Node", nursery: tasks.Nursery) -> None:
        """Start the processes that examine large batches and compact logs, when they are needed."""
        from barnabas.server.storage.helper_pool import HelperPool
        from barnabas.server.storage.record_worker import RecordWorker

        node.helpers = HelperPool()
        nursery.start_soon(node.helpers.run)
        node.records = RecordWorker(node.disk, node.helpers)
        nursery.start_soon(node.records.run)

    def failure_detector(self, node: "Node") -> "FailureDetector | None":
        """Return what notices that the process of another broker ends."""
        from barnabas.server.quorum.failure_detector import DetectorAccess, FailureDetector

        get_ms = node.config.get_int
        idle_ms = get_ms("connections.max.idle.ms")
        access = DetectorAccess(
            secured=node.to_brokers,
            lasts_s=idle_ms / 2000 if idle_ms > 0 else math.inf,
            unauthenticated_lasts_s=get_ms("barnabas.authentication.timeout.ms") / 2000,
        )
        return FailureDetector(
            node.node_id,
            node.config.inter_broker_listener_name,
            clock=node.clock,
            report=node.quorum.end_session,
            access=access,
        )

    async def start_metrics(self, node: "Node", nursery: tasks.Nursery) -> None:
        """Serve the node's metrics over HTTP, where its configuration has a port for them."""
        port = node.config.get_int("barnabas.metrics.port")
        if port >= 0:
            from barnabas.server.monitoring.loop_holds import LoopHolds
            from barnabas.server.monitoring.metrics_http import NodePages, serve_http

            node.metrics.loop_holds = LoopHolds()
            trio.lowlevel.add_instrument(node.metrics.loop_holds)
            pages = NodePages(
                node.metrics, lambda: node.has_started, node.is_ready, node.rebalance_causes
            )
            host = node.config.get("barnabas.metrics.host")
            node.metrics_port = await nursery.start(serve_http, pages, host, port)


def system_clock() -> Clock:
    """Return the machine's clock."""
    offset = time.time() - time.monotonic()
    return Clock(lambda: int(time.time() * 1000), lambda: int((offset + time.monotonic()) * 1000))
