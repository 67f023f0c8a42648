"""One client's connection: frames in, responses out in order, one task.

Requests are handled one at a time, as Kafka mutes a channel. Only Produce may start while earlier
Produce requests await replication (`Deferred`). The responses of one wakeup are sent together. The
connection reads nothing more while the peer does not read its responses, so memory stays bounded.
"""

import errno
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

import trio
from trio.lowlevel import checkpoint

from barnabas.protocol.errors import ProtocolError
from barnabas.security.principals import ANONYMOUS, USER, Principal
from barnabas.server.api.context import AnyContext, Deferred
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.transport.frame_splitter import FrameReader
from barnabas.server.transport.mute import Mute
from barnabas.sockets.byte_stream import ByteStream
from barnabas.sockets.file_ranges import inlined

if TYPE_CHECKING:
    from barnabas.server.transport.acceptor import Listener, Transport
    from barnabas.server.transport.login import Login
    from barnabas.server.transport.waiting_clients import FailureLog

logger = logging.getLogger(__name__)

_PRODUCE = 0
# The number of receives, or of requests, before other tasks run: a fetch that waits while a
# thousand small Produce requests arrive gets their records in several responses, from all
# partitions. Letting other tasks run costs as much as two requests, so it is not done after every
# few.
_TURNS_MAX = 8
_REQUESTS_MAX = 16
# The responses of one wakeup are sent when they reach this size, or at its end.
_OUT_BYTES = 64 * 1024
_OUT_PARTS = 256
# The number of Produce requests of one connection that may await replication.
_DEFERRED_MAX = 64
# A peer that closed its sending side gets responses that are ready within this time. After that its
# requests are carried out, without responses: a member that leaves its group must not be missed
# because its join was waiting.
_HALF_CLOSED_GRACE_S = 1.0


class OpeningError(ProtocolError):
    """A connection must be closed before its first request; `failures` logs it."""

    def __init__(self, message: str, failures: "FailureLog") -> None:
        super().__init__(message)
        self.failures = failures


class _PeerGoneError(OSError):
    """The responses due could not be sent before a handler began to wait."""


class Connection:
    """A connection, and the part of it that handlers use (`context.Peer`)."""

    __slots__ = (
        "_discarding",
        "_drained",
        "_mute",
        "_on_close",
        "_openings",
        "_out",
        "_out_bytes",
        "_queue",
        "_sending",
        "_sent",
        "_waiting",
        "client_host",
        "closing",
        "deferred",
        "dispatcher",
        "fd",
        "handling",
        "hung_up",
        "last_active_s",
        "listener_name",
        "login",
        "parked",
        "principal",
        "reader",
        "scope",
        "stream",
        "transport",
        "watched",
    )

    def __init__(
        self, transport: "Transport", listener: "Listener", sock: socket.socket, client_host: str
    ) -> None:
        self.transport = transport
        self.dispatcher: Dispatcher = transport.dispatchers[listener.kind]
        self.listener_name: str = listener.name
        self.principal: Principal = ANONYMOUS
        self.client_host = client_host
        self.fd = sock.fileno()
        self.stream: ByteStream = listener.stream(sock, transport.read_ahead)
        self._openings = listener.openings
        policy = transport.logins.get(listener.name)
        self.login: Login | None = None if policy is None else policy.login()
        size_max = transport.limits.request_bytes_max
        self.reader = FrameReader(size_max if policy is None else policy.receive_bytes_max)
        self.scope = trio.CancelScope()
        self.closing = False  # no further request is started
        self.handling = False  # a handler is being awaited
        self.parked = False  # and it may wait for the time that the client requested
        self.watched = False  # registered with the transport's PeerWatch
        self.hung_up = False  # the peer has sent its last byte
        self.last_active_s = monotonic()
        self._discarding = False  # the request being handled, and those behind it, get no response
        self._out: list[Any] = []  # encoded, not sent yet
        self._out_bytes = 0  # about the number of bytes encoded in this wakeup
        # Responses that are not encoded yet, some of them `Deferred`, in the order of the requests.
        self._queue: deque[tuple[AnyContext, Any]] = deque()
        self._drained: trio.Event | None = None
        self._sending = False
        self._sent: trio.Event | None = None
        self._waiting: trio.CancelScope | None = None  # of the handler being awaited
        self._mute = Mute()
        self._on_close: tuple[Callable[[], object], ...] = ()

    @property
    def idle(self) -> bool:
        """True when no response is due and no frame is half received."""
        owed = self.handling or self._queue or self._out or self._sending
        return not (owed or self.reader.within_frame)

    def close(self) -> None:
        """Close once earlier responses are sent, without a response to this request."""
        self.closing = self._discarding = True

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call back once, when the connection has ended."""
        self._on_close += (callback,)

    def finish(self) -> None:
        """Close once the requests in progress are answered; at once when there are none.

        A request that only waits for an event (a fetch for records, a join for other members) is
        not waited for: its client sends it to another server, as with Apache Kafka.
        """
        self.closing = True
        if self.idle or (self.parked and not self._queue):
            self.scope.cancel()

    def peer_hung_up(self, *, reset: bool) -> None:
        """React to the peer's end of data: a request that waits for an event ends soon.

        After a reset, or behind a request that has ended so, it ends at once. Every request behind
        it is carried out.
        """
        self.hung_up = True
        if self._mute.peer_hung_up():
            return
        if self._waiting is not None:
            ends_now = self.parked and (reset or self._discarding)
            self._waiting.deadline = trio.current_time() + (0 if ends_now else _HALF_CLOSED_GRACE_S)
        elif reset:
            self.scope.cancel()

    async def run(self) -> None:
        """Serve until either side closes; never raises because of the peer."""
        try:
            with self.scope:
                if self._openings:
                    await self._open()
                await self._serve()
        except OpeningError as error:
            error.failures.refused(self.client_host, self.listener_name, str(error))
        except ProtocolError as error:
            self._log_closed(error)
        except OSError as error:
            if error.errno == errno.EIO:  # not a socket's error: the disk of the fetched log failed
                logger.error("cannot read a log, closing host=%s error=%s", self.client_host, error)
            else:
                logger.debug("connection lost host=%s error=%s", self.client_host, error)
        except Exception:
            logger.exception("connection failed host=%s", self.client_host)
        finally:
            self._release()

    async def _open(self) -> None:
        """Take the listener's steps before the first request, within their time.

        Raises ProtocolError when the connection must be closed.
        """
        limit_s = self.transport.limits.authentication_ms_max / 1000
        with trio.move_on_after(limit_s) as scope:
            for step in self._openings:
                await step(self)
        if scope.cancelled_caught:
            raise ProtocolError(
                f"not ready within {limit_s:g} s (barnabas.authentication.timeout.ms)"
            )

    def _release(self) -> None:
        self._forget_queue()
        self.transport.forget(self)
        self.stream.close()
        for callback in self._on_close:
            callback()

    def _forget_queue(self) -> None:
        for _, response in self._queue:
            if isinstance(response, Deferred):
                response.when_resolved(None)
        self._queue.clear()

    def _log_closed(self, error: ProtocolError) -> None:
        logger.info(
            "closing connection host=%s listener=%s reason=%s",
            self.client_host,
            self.listener_name,
            error,
        )

    async def _serve(self) -> None:
        reader, stream, scratch = self.reader, self.stream, self.transport.scratch
        receive_into = stream.receive_into
        turns = _TURNS_MAX
        while True:
            if turns >= _TURNS_MAX:
                turns = 0
                await stream.wait_readable()
            try:
                count = reader.receive(receive_into, scratch)
            except BlockingIOError:
                turns = _TURNS_MAX
                continue
            if not count:
                return None
            self.last_active_s = monotonic()
            frames = reader.frames
            if frames:
                reader.frames = []
                await self._handle_frames(frames)
                while self._mute.until_s:
                    await self._unmuted(partial(reader.receive_rest, receive_into, scratch))
            if self.closing:
                return await self._drain()
            if reader.error is not None:
                await self._drain()
                raise reader.error
            # A peer that is within a frame, or sends several requests, probably has sent more
            # already.
            if reader.within_frame or len(frames) > 1:
                turns += 1 + len(frames) * _TURNS_MAX // _REQUESTS_MAX
            else:
                turns = _TURNS_MAX

    async def _handle_frames(self, frames: list[bytearray]) -> None:
        if self.login is None:
            await self._handle_requests(frames)
            return
        requests: list[bytearray] = []
        for frame in frames:
            if self.login.takes(frame):
                await self._handle_before_login(requests)
                if not self.closing:
                    await self._log_in(self.login, frame)
            elif self.login.is_expired:
                await self._handle_before_login(requests)
                raise ProtocolError("the session has ended, and the client did not renew it")
            else:
                requests.append(frame)
            if self.closing:
                return
        if requests:
            await self._handle_requests(requests)

    async def _handle_before_login(self, requests: list[bytearray]) -> None:
        """Answer the requests that precede a frame of the authentication."""
        if requests:
            await self._handle_requests(requests)
            requests.clear()
        await self._drain()

    async def _log_in(self, login: "Login", frame: bytearray) -> None:
        """Carry out a step of the authentication; close the connection when it failed."""
        if not await login.step(self, frame):
            self.closing = True
        elif login.session is not None:
            identity = login.session.identity
            self.principal = Principal(USER, identity.user, identity.token_authenticated)
            self.reader.size_max = self.transport.limits.request_bytes_max

    async def send_encoded(self, parts: list[Any]) -> None:
        """Send the parts of a response, and those before it."""
        self._out += parts
        await self._flush()

    async def _handle_requests(self, frames: list[bytearray]) -> None:
        try:
            for start in range(0, len(frames), _REQUESTS_MAX):
                if start:
                    self._send_now()
                    await checkpoint()
                    if self.closing:
                        return
                if not await self._handle_some(frames[start : start + _REQUESTS_MAX]):
                    return
        except ProtocolError:
            await self._drain()  # requests before the bad one are answered
            raise
        self._send_now()
        if self._out:
            await self._flush()
        self._out_bytes = 0

    async def _handle_some(self, frames: list[bytearray]) -> bool:
        """Handle the requests in frames; return False when no further one may start.

        All are decoded before the first is handled, and all Produce requests are handled before the
        first response is encoded. Repeating one kind of work takes a third less time, as the
        processor predicts the interpreter's branches.
        """
        contexts: list[AnyContext] = []
        bad: ProtocolError | None = None
        for frame in frames:
            try:
                contexts.append(self.dispatcher.decode(self, frame))
            except ProtocolError as error:
                bad = error
                break
        for context in contexts:
            await self._handle(context)
            if self.closing:
                return False
            if self._out_bytes > _OUT_BYTES:
                await self._flush()
        self._encode_resolved()
        if bad is not None:
            raise bad
        return True

    def _send_now(self) -> None:
        """Send as much as the socket accepts at once."""
        if self._out and not self._sending:
            self._out = self.stream.send_now(self._out)

    async def _handle(self, context: AnyContext) -> None:
        if self._queue and (context.api_key != _PRODUCE or len(self._queue) >= _DEFERRED_MAX):
            self._encode_resolved()
            if self._queue:
                await self._drain()
        if self._mute.until_s:
            await self._unmuted(lambda: True)
        time_quota = self.dispatcher.quotas.request_time
        if time_quota is not None:
            time_quota.start(context)
        context.started_at = monotonic()
        try:
            response = context.route.handler(context, context.request)
            if type(response) is CoroutineType:
                if time_quota is not None and context.timer is not None:
                    work = cast("Coroutine[Any, Any, Any]", response)
                    response = context.timer.timed(work)
                response = await self._awaited(
                    cast("Coroutine[Any, Any, Any]", response), waits=context.route.waits
                )
        except (ProtocolError, _PeerGoneError):
            raise
        except Exception as error:
            response = error
        if time_quota is not None:
            time_quota.charge(context)
        if response is None or self._discarding:
            self._mute.extend(context.throttle_ms)
            self.dispatcher.count(context)
            return
        if type(response) is Deferred and not response.resolved:
            response.when_resolved(self._send_resolved)
        self._queue.append((context, response))
        if context.throttle_ms:
            self._encode_resolved()  # which mutes the connection before its next request

    async def _unmuted(self, owes: Callable[[], bool]) -> None:
        """Send what is due, then wait until no quota holds the client back (`Mute.over`)."""
        self._encode_resolved()
        await self._flush()
        await self._mute.over(partial(self.transport.watch, self), owes)
        frames, self.reader.frames = self.reader.frames, []
        if frames:
            await self._handle_frames(frames)

    async def _awaited(self, response: Coroutine[Any, Any, Any], *, waits: bool) -> Any:
        """Return an asynchronous handler's result, None when it ends as the peer has closed."""
        self.handling = True
        try:
            self._encode_resolved()
            try:
                if self._out:
                    await self._flush()
            except OSError as error:
                raise _PeerGoneError(*error.args) from error
            self.parked = waits
            with trio.CancelScope() as self._waiting:
                self.transport.watch(self)
                return await response
            self._discarding = True
            return None
        finally:
            response.close()  # the flush may have failed before it began
            self.handling = self.parked = False
            self._waiting = None

    def _send_resolved(self) -> None:
        """Send the resolved responses; called when replication completes."""
        try:
            self._encode_resolved()
        except ProtocolError as error:
            self._log_closed(error)
            self.scope.cancel()
            return
        if not self._queue and self._drained is not None:
            self._drained.set()
        if self._sending or not self._out:
            return
        try:
            self._out = self.stream.send_now(self._out)
        except OSError:
            self.scope.cancel()
            return
        if self._out:
            self.transport.start_soon(self._flush_in_background)

    def _encode_resolved(self) -> None:
        """Encode the responses up to the first that is not resolved.

        Raises ProtocolError when a response cannot be encoded; the connection must be closed.
        """
        queue, encode, out = self._queue, self.dispatcher.encode, self._out
        while queue:
            context, response = queue[0]
            if type(response) is Deferred:
                if not response.resolved:
                    return
                response = response.response
            queue.popleft()
            try:
                parts = encode(context, response)
            except ProtocolError:
                self._forget_queue()  # later requests must not be answered either
                raise
            self._mute.extend(context.throttle_ms)
            if len(parts) == 1:
                out.append(parts[0])
                self._out_bytes += len(parts[0])
            else:
                out += inlined(parts)
                self._out_bytes += _OUT_BYTES

    async def _flush_in_background(self) -> None:
        try:
            await self._flush()
        except (OSError, trio.ClosedResourceError):
            self.scope.cancel()

    async def _drain(self) -> None:
        """Wait until every response is sent, deferred ones too."""
        self._encode_resolved()
        await self._flush()
        while self._queue:
            self._drained = trio.Event()
            await self._drained.wait()
        self._drained = None
        await self._flush()

    async def _flush(self) -> None:
        """Send all encoded responses. One task sends at a time, so that bytes stay in order."""
        while self._sending:
            if self._sent is None:
                self._sent = trio.Event()
            await self._sent.wait()
        if not self._out:
            return
        self._sending = True
        try:
            while self._out:
                out, self._out, self._out_bytes = self._out, [], 0
                await self.stream.send(out)
        finally:
            self._sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None
