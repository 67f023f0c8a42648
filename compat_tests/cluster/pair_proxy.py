"""Proxies in front of each node's listeners, which cut, delay or slow the traffic of one pair.

Every node connects to others from its own loopback address (`barnabas.peer.bind.address`), so a
proxy knows both ends of a connection. Clients are node 0.
"""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum

import attrs
import trio

CLIENTS = 0
_CHUNK = 64 * 1024
_IN_TRANSIT_MAX = 64


class Link(Enum):
    """The behaviour of a pair's connections."""

    OPEN = "open"
    SILENT = "silent"
    """Bytes are accepted and not passed on, as over an unplugged cable."""
    RESET = "reset"
    """Connections are reset, as by a firewall."""


@attrs.frozen
class Rule:
    """The behaviour of the traffic from one node to another."""

    link: Link = Link.OPEN
    delay_s: float = 0.0
    bytes_per_s: float = float("inf")


def peer_address(node_id: int) -> str:
    """Return the loopback address from which a node connects to others."""
    return f"127.0.0.{10 + node_id}"


@attrs.frozen
class Route:
    """A port on which a node is advertised, and the one on which it listens."""

    node_id: int
    advertised: int
    actual: int


class PairProxy:
    """The proxies of all nodes, in a background thread.

    A rule holds for requests from `source` to `target` and the responses to them: a connection
    belongs to the node that opened it. `cut` of both directions needs two rules.
    """

    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes
        self._rules: dict[tuple[int, int], Rule] = {}
        self._open: dict[trio.SocketStream, tuple[int, int]] = {}
        self._lost: set[trio.SocketStream] = set()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._ready = threading.Event()
        self._changed = trio.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)

    @property
    def is_running(self) -> bool:
        """True between `start` and `stop`."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Listen on all advertised ports."""
        self._thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        """Close all connections."""
        if self.is_running:
            self._call(self._scope.cancel)
            self._thread.join()

    def set_rule(self, source: int, target: int, rule: Rule) -> None:
        """Set the rule of a pair, also for connections that are open."""
        self._call(lambda: self._set(source, target, rule))

    def cut(self, nodes: set[int], others: set[int], link: Link = Link.SILENT) -> None:
        """Cut two sets of nodes off from each other."""
        for one in nodes:
            for other in others:
                self.set_rule(one, other, Rule(link))
                self.set_rule(other, one, Rule(link))

    def heal(self) -> None:
        """Remove all rules. Silent connections are reset: their bytes are lost."""
        self._call(self._heal)

    def heal_without_resets(self) -> None:
        """Remove all rules. Connections that were silent stay open and lose all bytes.

        They do so behind a firewall that has forgotten them during the cut.
        """
        self._call(self._lose_silent)
        self._call(self._heal)

    def _call(self, action: Callable[[], object]) -> None:
        if self._token is not None:
            self._token.run_sync_soon(action)

    def _set(self, source: int, target: int, rule: Rule) -> None:
        self._rules[source, target] = rule
        if rule.link is Link.RESET:
            self._reset((source, target))
        self._changed.set()
        self._changed = trio.Event()

    def _lose_silent(self) -> None:
        silent = {pair for pair, rule in self._rules.items() if rule.link is Link.SILENT}
        self._lost |= {stream for stream, pair in self._open.items() if pair in silent}

    def _heal(self) -> None:
        for pair, rule in self._rules.items():
            if rule.link is Link.SILENT:
                self._reset(pair)
        self._rules.clear()
        self._changed.set()
        self._changed = trio.Event()

    def _reset(self, pair: tuple[int, int]) -> None:
        for stream, of_pair in list(self._open.items()):
            if of_pair == pair and stream not in self._lost:
                _close_with_reset(stream)

    def _rule(self, pair: tuple[int, int]) -> Rule:
        return self._rules.get(pair, Rule())

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                for route in self._routes:
                    await nursery.start(self._listen, _Handler(self, route), route.advertised)
                self._ready.set()

    async def _listen(
        self,
        handler: "_Handler",
        port: int,
        task_status: "trio.TaskStatus[object]" = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await trio.serve_tcp(handler.serve, port, host="127.0.0.1", task_status=task_status)

    async def relay(
        self, source: trio.SocketStream, sink: trio.SocketStream, pair: tuple[int, int]
    ) -> None:
        """Pass bytes on under the pair's rule until an end closes.

        The ends of a lost connection stay open. A delay does not limit the rate: later bytes are in
        transit meanwhile.
        """
        entry, exit_ = trio.open_memory_channel[tuple[float, bytes]](_IN_TRANSIT_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver, exit_, sink, pair)
            with entry, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while data := await source.receive_some(_CHUNK):
                    await entry.send((trio.current_time() + self._rule(pair).delay_s, data))
            if source in self._lost:
                await trio.sleep_forever()  # the other end does not notice

    async def _deliver(
        self,
        transit: "trio.MemoryReceiveChannel[tuple[float, bytes]]",
        sink: trio.SocketStream,
        pair: tuple[int, int],
    ) -> None:
        with transit, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for due, data in transit:
                while self._rule(pair).link is Link.SILENT:
                    await self._changed.wait()
                await trio.sleep_until(due)
                await trio.sleep(len(data) / self._rule(pair).bytes_per_s)
                if sink not in self._lost:
                    await sink.send_all(data)


class _Handler:
    """The connections of one route."""

    def __init__(self, proxy: PairProxy, route: Route) -> None:
        self._proxy = proxy
        self._route = route

    async def serve(self, near: trio.SocketStream) -> None:
        proxy = self._proxy
        pair = (_node_of(near.socket.getpeername()[0]), self._route.node_id)
        if proxy._rule(pair).link is Link.RESET:
            _close_with_reset(near)
            return
        try:
            far = await trio.open_tcp_stream("127.0.0.1", self._route.actual)
        except OSError:
            _close_with_reset(near)
            return
        proxy._open[near] = proxy._open[far] = pair
        try:
            async with trio.open_nursery() as nursery:

                async def one_way(source: trio.SocketStream, sink: trio.SocketStream) -> None:
                    await proxy.relay(source, sink, pair)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(one_way, near, far)
                nursery.start_soon(one_way, far, near)
        finally:
            for stream in (near, far):
                proxy._open.pop(stream, None)
                proxy._lost.discard(stream)
                _close_with_reset(stream)


def _node_of(address: str) -> int:
    last = int(address.rpartition(".")[2])
    return last - 10 if last > 10 else CLIENTS


def _close_with_reset(stream: trio.SocketStream) -> None:
    """Close a connection so that its peer sees a reset."""
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


def proxied_config(
    node_id: int, routes: Mapping[str, Route], host: str = "127.0.0.1"
) -> dict[str, str]:
    """Return the properties of a node that is advertised through its routes, by listener name."""
    return {
        "listeners": ",".join(f"{name}://{host}:{r.actual}" for name, r in routes.items()),
        "advertised.listeners": ",".join(
            f"{name}://{host}:{r.advertised}" for name, r in routes.items()
        ),
        "barnabas.peer.bind.address": peer_address(node_id),
    }
