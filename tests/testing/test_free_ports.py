"""`free_ports`: no two processes get the same port, whether something listens on it yet or not.

Other processes may take ports at the same time, so no test wants a certain port of another block.
"""

import socket
import subprocess
import sys
from itertools import count

import pytest

from barnabas.testing.free_ports import HOST, free_group_port, free_ports

_BLOCK_SIZE = 50
_BLOCKS = "barnabas.testing.free_ports._BLOCKS"

_ONE_BLOCK = """
import sys
from barnabas.testing import free_ports as module

first = int(sys.argv[1])
module._BLOCKS = range(first, first + 50, 50)
try:
    print(*module.free_ports(1))
except OSError as error:
    print(error)
"""

_ALL_OF_A_BLOCK = """
from barnabas.testing import free_ports as module

for first in module._BLOCKS:
    module._BLOCKS = range(first, first + 50, 50)
    try:
        given = module.free_ports(49)
    except OSError:  # another process has the block, or a port of it
        continue
    break
print(sorted(given) == sorted(module.free_ports(49)))
try:
    module.free_ports(50)
except OSError as error:
    print(error)
"""

_FORK = """
import os
from barnabas.testing.free_ports import free_ports

print(*free_ports(1), flush=True)
printed, may_end = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    print(*free_ports(1), flush=True)
    os.write(printed[1], b"p")
    os.read(may_end[0], 1)  # it has its ports until it ends
    os._exit(0)
os.read(printed[0], 1)
print(*free_ports(60), flush=True)
os.write(may_end[1], b"e")
os.waitpid(child, 0)
"""


def lines_of(program: str, *arguments: str) -> list[str]:
    """Run a program in another process; return the lines that it prints."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) != 0


def port_before_unused_ones() -> int:
    """Return a new port of this process with at least nine after it; nothing listens there."""
    return next(port for _ in count() for port in free_ports(1) if _has_unused_ports(port, port))


def group_before_unused_ports() -> int:
    """Return the first port of a new group of three with at least seven unused ports after it."""
    groups = (free_group_port(3) for _ in count())
    return next(
        port for port in groups if _has_unused_ports(port, port, port + 10_000, port + 20_000)
    )


def _has_unused_ports(port: int, *starts: int) -> bool:
    """True when the next ports are of the same block, and no server of an ended process has one."""
    if port % _BLOCK_SIZE > _BLOCK_SIZE - 10:
        return False
    return all(is_free(start + number) for start in starts for number in range(10))


def test_unused_ports_of_a_block_are_given_to_no_other_process() -> None:
    port = port_before_unused_ones()
    (line,) = lines_of(_ONE_BLOCK, str(port - port % _BLOCK_SIZE))
    assert line == f"1 free ports of {HOST} are wanted, there are 0"


def test_ports_are_not_given_twice() -> None:
    ports = [port for _ in range(30) for port in free_ports(7)]
    assert len(set(ports)) == len(ports)


def test_ports_in_use_and_excluded_ports_are_left_out() -> None:
    first = port_before_unused_ones()
    excluded, used = first + 1, first + 2
    with socket.socket() as listening:
        listening.bind((HOST, used))
        listening.listen()
        found = free_ports(3, excluding={excluded})
    assert not {first, excluded, used}.intersection(found)
    assert found[0] == first + 3


def test_too_many_ports_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_BLOCKS, range(0))
    with pytest.raises(OSError, match=r"2 free ports of .* wanted, there are 0"):
        free_ports(2)


def test_ports_are_given_again_when_no_block_is_left() -> None:
    assert lines_of(_ALL_OF_A_BLOCK) == [
        "True",
        f"50 free ports of {HOST} are wanted, there are 49",
    ]


def test_forked_process_gets_other_ports() -> None:
    own, of_child, more = (set(line.split()) for line in lines_of(_FORK))
    assert len(of_child) == 1
    assert not of_child & (own | more)


@pytest.mark.parametrize("count", [0, 1, 60])
def test_as_many_ports_as_wanted(count: int) -> None:
    assert len(free_ports(count)) == count


@pytest.mark.parametrize("distance", [10_000, 20_000], ids=["controllers", "brokers"])
def test_ports_of_a_group_are_free_for_all_uses(distance: int) -> None:
    first = group_before_unused_ports()
    with socket.socket() as listening:
        listening.bind((HOST, first + distance + 4))
        listening.listen()
        groups = [free_group_port(3) for _ in range(20)]
    clients = [port + index for port in (first, *groups) for index in range(3)]
    assert len(set(clients)) == len(clients)
    assert groups[0] == first + 5
