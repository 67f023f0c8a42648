"""Free ports for the servers of tests, different in each process that asks for them.

A server may start long after its port was chosen, or stop and start again: a check that nothing
listens is not enough. So a process reserves blocks of ports, and no other process of this module
gets one of them while it runs.
"""

import os
import random
import socket
import threading
from collections import deque
from collections.abc import Container, Iterator
from typing import Final

from barnabas.server.node_group.group_plan import BROKER_PORT_DISTANCE, CONTROLLER_PORT_DISTANCE

HOST: Final = "127.0.0.1"
"""The address that the ports are of."""

# All are below the range from which the system takes the ports of outgoing connections. The ports
# of groups, at every distance, do not overlap with the other ones.
_BLOCK_SIZE: Final = 50
_BLOCKS: Final = range(24_000, 32_000, _BLOCK_SIZE)
_GROUP_BLOCKS: Final = range(2_000, 4_000, _BLOCK_SIZE)
_DISTANCES: Final = (CONTROLLER_PORT_DISTANCE, BROKER_PORT_DISTANCE)


class _Reservation:
    """The blocks of a process: it holds the first port of each of them until it ends."""

    def __init__(self, blocks: range) -> None:
        # Its own generator: hypothesis gives the shared one the same seed in every process.
        self._unreserved = random.Random().sample(blocks, len(blocks))
        self._unused: deque[int] = deque()
        self._used: list[int] = []

    def ports(self) -> Iterator[int]:
        """Yield ports that were not yielded before; when all blocks are reserved, the others."""
        before = list(self._used)
        while self._unused or self._reserve():
            port = self._unused.popleft()
            self._used.append(port)
            yield port
        yield from before

    def _reserve(self) -> bool:
        """Reserve one more block; return whether there was one."""
        while self._unreserved:
            first = self._unreserved.pop()
            holder = socket.socket()
            try:
                holder.bind((HOST, first))
            except OSError:
                holder.close()
                continue
            holder.detach()  # the system closes it when the process ends
            self._unused.extend(range(first + 1, first + _BLOCK_SIZE))
            return True
        return False


_lock: Final = threading.Lock()
_reservations: Final[dict[tuple[int, range], _Reservation]] = {}


def free_ports(count: int, excluding: Container[int] = ()) -> list[int]:
    """Return different ports of 127.0.0.1 on which nothing listens, none of those in `excluding`.

    A port is not returned twice as long as there are blocks to reserve. Raises OSError when there
    are not `count` free ports.
    """
    found: list[int] = []
    with _lock:
        candidates = _candidates(_BLOCKS)
        while len(found) < count:
            port = next(candidates, None)
            if port is None:
                raise OSError(f"{count} free ports of {HOST} are wanted, there are {len(found)}")
            if port not in excluding and _is_free(port):
                found.append(port)
    return found


def free_group_port(nodes: int) -> int:
    """Return a port for `barnabas serve --nodes`: the ports of all nodes are free.

    They are the port and those after it for clients, the same plus 10000 for controllers, and
    plus 20000 for brokers of a group with `--secure`.
    Raises OSError when there is no such port.
    """
    found: list[int] = []
    with _lock:
        for port in _candidates(_GROUP_BLOCKS):
            if found and port != found[-1] + 1:
                found = []
            if all(map(_is_free, (port, *(port + distance for distance in _DISTANCES)))):
                found.append(port)
            else:
                found = []
            if len(found) == nodes:
                return found[0]
    raise OSError(f"there are no free ports of {HOST} for {nodes} nodes")


def _candidates(blocks: range) -> Iterator[int]:
    # A forked process has a copy of its parent's reservation, which is not its own.
    key = (os.getpid(), blocks)
    if key not in _reservations:
        _reservations[key] = _Reservation(blocks)
    return _reservations[key].ports()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
