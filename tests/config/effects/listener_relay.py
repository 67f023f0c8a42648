"""A relay before a listener of a node: it sees each request, and may keep requests of one api."""

from collections import Counter
from collections.abc import Callable

import trio

_CHUNK_BYTES = 64 * 1024


class ListenerRelay:
    """Passes connections on to the port of a listener, in both directions.

    `kept` is the key of an api: the relay does not pass on its requests, and the connection that
    carried one stays silent from then on.
    """

    def __init__(self, target_port: int, kept: int | None = None) -> None:
        self.target_port = target_port
        self.kept = kept
        self.requests: Counter[int] = Counter()
        """The number of requests by api key."""

    async def serve(self, port: int, task_status: "trio.TaskStatus[None]") -> None:
        """Serve the port until cancelled."""
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        task_status.started()
        await trio.serve_listeners(self._relay, listeners)

    async def _relay(self, client: trio.SocketStream) -> None:
        try:
            node = await trio.open_tcp_stream("127.0.0.1", self.target_port)
        except OSError:  # the node does not listen yet
            await client.aclose()
            return
        is_kept = False
        received = bytearray()

        def sees(chunk: bytes) -> bool:
            """Count the requests of a chunk; return whether it is passed on."""
            nonlocal is_kept
            received.extend(chunk)
            while len(received) >= 6:
                size, key = int.from_bytes(received[:4]), int.from_bytes(received[4:6])
                if len(received) < size + 4:
                    break
                del received[: size + 4]
                self.requests[key] += 1
                is_kept |= key == self.kept
            return not is_kept

        async with node, trio.open_nursery() as nursery:
            nursery.start_soon(_copy, node, client, lambda _: not is_kept)
            await _copy(client, node, sees)
            nursery.cancel_scope.cancel()


async def _copy(
    source: trio.SocketStream, target: trio.SocketStream, passes: Callable[[bytes], bool]
) -> None:
    """Copy until one side closes; close the other side then."""
    try:
        while chunk := await source.receive_some(_CHUNK_BYTES):
            if passes(chunk):
                await target.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    await target.aclose()
