"""The connections that show a controller when the process of a broker has ended.

`cluster.controller.failure_evidence` decides; this module connects, waits for the end of each
connection, and reports.

A connection authenticates as those of this node's fetches do, and is replaced before
`connections.max.idle.ms` of the brokers closes it.
"""

import errno
import logging
import math
import select
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import attrs
import trio

from barnabas.clock import Clock
from barnabas.cluster.controller.failure_evidence import SETTLE_MS, BrokerAddress, FailureEvidence
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import BrokerImage, MetadataImage
from barnabas.server.peer_security import Secured, plain

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 1.0
_READ_BYTES: Final = 64


@attrs.frozen(kw_only=True)
class DetectorAccess:
    """The security of a detector's connections, and the longest time of each.

    A node without credentials for brokers does not authenticate, and leaves before their
    `barnabas.authentication.timeout.ms`.
    """

    secured: Secured = plain
    lasts_s: float = math.inf
    unauthenticated_lasts_s: float = math.inf


class FailureDetector:
    """Watches the brokers of other nodes: unfenced ones, and those that have just registered.

    A broker that ends right after its start has a connection, too: it is watched before it is
    unfenced. A broker that was fenced is watched again after its next registration.

    `listener_name` is the listener that brokers serve each other on, `access` the security of it.
    `report` is called with each registration whose process has ended, perhaps several times.
    """

    def __init__(
        self,
        node_id: int,
        listener_name: str,
        *,
        clock: Clock,
        report: Callable[[SessionKey], None],
        access: DetectorAccess = DetectorAccess(),
    ) -> None:
        self._node_id = node_id
        self._listener_name = listener_name
        self._now_ms = clock.monotonic_ms
        self._report = report
        self._access = access
        self._failing: set[SessionKey] = set()
        self._evidence = FailureEvidence()
        self._connections: dict[SessionKey, trio.CancelScope] = {}
        self._registered: set[SessionKey] = set()
        self._starting: set[SessionKey] = set()
        self._woken = trio.Event()
        self._changed = trio.Event()
        self._poller = select.poll()

    def follow(self, image: MetadataImage) -> None:
        """Watch the unfenced brokers of this image."""
        self._registered = {_key(broker) for broker in image.brokers.values()}
        self._watch_brokers(image)

    def follow_changes(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Watch the unfenced brokers of a new image, and those that it is the first to have."""
        if not delta.brokers:
            return
        fenced = {_key(broker) for broker in image.brokers.values() if broker.fenced}
        unfenced = self._starting - fenced
        self._starting = {
            key for key in fenced if key in self._starting or key not in self._registered
        }
        self.follow(image)
        for key in unfenced:
            self._evidence.on_ready(key, self._now_ms())

    def _watch_brokers(self, image: MetadataImage) -> None:
        brokers = {
            _key(broker): address
            for broker in image.brokers.values()
            if broker.id != self._node_id
            and (not broker.fenced or _key(broker) in self._starting)
            and (address := self._address(broker)) is not None
        }
        for key in self._evidence.follow(brokers, self._now_ms()):
            if key in self._connections:
                self._connections.pop(key).cancel()
        self._wake()

    def reachable(self, image: MetadataImage) -> MetadataImage:
        """Return the image with brokers that have just ended as fenced ones.

        Clients get it: they look for the next leader at once, instead of connecting again and again
        until the controller's change is committed.
        """
        fenced = {
            key.broker_id: attrs.evolve(broker, fenced=True)
            for key in self._evidence.unreachable(self._now_ms())
            if (broker := image.brokers.get(key.broker_id)) is not None
            and broker.epoch == key.epoch
        }
        return attrs.evolve(image, brokers={**image.brokers, **fenced}) if fenced else image

    def disputed(self) -> frozenset[int]:
        """Return the brokers that refuse this node, and that the controller does not fence."""
        if not self._evidence.gone:
            return frozenset()
        return frozenset(key.broker_id for key in self._evidence.disputed(self._now_ms()))

    def just_ended(self) -> frozenset[int]:
        """Return the brokers that Metadata still lists although their process has just ended.

        librdkafka 2.16 closes its handle of a broker that is no longer listed. When the same answer
        moves a partition to another leader, it may lose that leader for a second. A broker that was
        never unfenced is not listed.
        """
        ended = self._evidence.just_ended(self._now_ms()) - self._starting
        return frozenset(key.broker_id for key in ended)

    async def settle(self) -> None:
        """Wait until brokers that have just closed their connection are fenced or connected again.

        At most half a second. A client that lost its leader asks for metadata at once. An answer
        without the next leader costs it a second or more (librdkafka looks again each second).
        """
        if not self._is_settling():
            return
        with trio.move_on_after(SETTLE_MS / 1000):
            while self._is_settling():
                await self._changed.wait()

    def report_again(self) -> None:
        """Report the brokers that are known to have ended to a new active controller."""
        for key in self._evidence.gone:
            self._report(key)

    async def run(self) -> None:
        """Keep the connections until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._woken = trio.Event()
                for key, address in self._evidence.take_due(self._now_ms()):
                    nursery.start_soon(self._watch, key, address)
                wakeup_ms = self._evidence.wakeup_ms()
                with trio.CancelScope() as scope:
                    if wakeup_ms is not None:
                        delay_s = max(0, wakeup_ms - self._now_ms()) / 1000
                        scope.deadline = trio.current_time() + delay_s
                    await self._woken.wait()

    def _address(self, broker: BrokerImage) -> BrokerAddress | None:
        endpoint = broker.endpoints.get(self._listener_name)
        return None if endpoint is None else BrokerAddress(endpoint.host, endpoint.port)

    async def _watch(self, key: SessionKey, address: BrokerAddress) -> None:
        """Connect and wait for the end of the connection."""
        with trio.CancelScope() as scope:
            self._connections[key] = scope
            await self._connect(key, address)
            self._wake()
            if self._connections.get(key) is scope:
                del self._connections[key]

    async def _connect(self, key: SessionKey, address: BrokerAddress) -> None:
        evidence = self._evidence
        try:
            with trio.fail_after(_CONNECT_TIMEOUT_S):
                stream = await _open(address)
        except ConnectionRefusedError:
            is_known = key in evidence.gone
            if evidence.on_refused(key, self._now_ms()):
                if not is_known:
                    logger.warning(
                        "broker process has ended broker=%d epoch=%d address=%s:%d", *key, *address
                    )
                self._report(key)
        except (OSError, UnicodeError, trio.TooSlowError):
            evidence.on_failed(key, self._now_ms())
        else:
            is_plain = self._access.secured is plain
            evidence.on_connected(key, self._now_ms(), is_admitted=is_plain)
            self._wake()
            if is_plain:
                is_closed = await self._wait_for_end(stream, self._access.lasts_s)
            else:
                is_closed = await self._authenticate(key, address, stream)
            if is_closed:
                evidence.on_closed(key, self._now_ms())
            else:
                evidence.on_left(key, self._now_ms())

    async def _wait_for_end(self, stream: trio.socket.SocketType, lasts_s: float) -> bool:
        """Return True when the broker has closed the connection, False when its time is over."""
        with self._polled(stream.fileno()), stream, suppress(OSError):
            with trio.move_on_after(lasts_s) as scope:
                while await stream.recv(_READ_BYTES):
                    pass  # a broker sends nothing without a request
            return not scope.cancelled_caught
        return True

    @contextmanager
    def _polled(self, number: int) -> Generator[None, None, None]:
        """Let `settle` see that something has arrived at a socket."""
        self._poller.register(number, select.POLLIN)
        try:
            yield
        finally:
            self._poller.unregister(number)

    async def _authenticate(
        self, key: SessionKey, target: BrokerAddress, stream: trio.socket.SocketType
    ) -> bool:
        """Authenticate, then wait for the end; False when this side has ended the connection."""
        from barnabas.client.broker_connection import BrokerConnection
        from barnabas.client.client_config import ClientConfig
        from barnabas.client.failures import Address, AuthenticationError, ClientError
        from barnabas.client.outgoing_sockets import stream_of

        client_id = f"controller-{self._node_id}-failure-detector"
        # A broker that starts accepts connections late: only its end ends the wait.
        plain_config = ClientConfig((), client_id=client_id, request_timeout_s=math.inf)
        try:
            config = self._access.secured(plain_config)
        except AuthenticationError:
            return await self._wait_for_end(stream, self._access.unauthenticated_lasts_s)
        address, number = Address(*target), stream.detach()
        sock = socket.socket(fileno=number)
        sock.setblocking(False)
        with trio.move_on_after(self._access.lasts_s) as scope:
            try:
                connection = BrokerConnection(
                    address, config, await stream_of(sock, address, config)
                )
                async with trio.open_nursery() as nursery:
                    await nursery.start(connection.read_responses)
                    try:
                        await connection.prepare()
                    except BaseException:
                        connection.close()
                        raise
                    self._evidence.on_admitted(key)
                    self._failing.discard(key)
                    with self._polled(number):
                        await connection.wait_closed()
            except* ClientError as errors:
                self._cannot_authenticate(key, target, errors.exceptions[0])
        return not scope.cancelled_caught

    def _cannot_authenticate(
        self, key: SessionKey, address: BrokerAddress, error: Exception
    ) -> None:
        """Log the first of several failures to authenticate at a broker."""
        from barnabas.client.failures import AuthenticationError, TlsError

        if isinstance(error, AuthenticationError | TlsError) and key not in self._failing:
            self._failing.add(key)
            logger.warning(
                "cannot authenticate at broker=%d address=%s:%d error=%s hint=%s",
                key.broker_id,
                *address,
                error,
                "compare the credentials of the inter-broker listener of both nodes",
            )

    def _is_settling(self) -> bool:
        """True also for a connection whose end has arrived, but is not yet handled."""
        return self._evidence.is_settling(self._now_ms()) or bool(self._poller.poll(0))

    def _wake(self) -> None:
        self._woken.set()
        self._changed.set()
        self._changed = trio.Event()


def _key(broker: BrokerImage) -> SessionKey:
    return SessionKey(broker.id, broker.epoch)


async def _open(address: BrokerAddress) -> trio.socket.SocketType:
    """Connect to the first address that answers.

    Raises ConnectionRefusedError when all addresses refuse, UnicodeError for an invalid host name,
    OSError for any other failure.
    """
    from barnabas.client.outgoing_sockets import local_address

    failures: list[OSError] = []
    own = local_address.get()
    found = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, target in found:
        sock = trio.socket.socket(family, kind, protocol)
        try:
            if own is not None:
                await sock.bind((own, 0))
            await sock.connect(target)
        except OSError as error:
            sock.close()
            failures.append(error)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    if failures and all(isinstance(error, ConnectionRefusedError) for error in failures):
        raise failures[0]
    raise OSError(errno.EHOSTUNREACH, f"cannot reach {address.host}:{address.port}")
