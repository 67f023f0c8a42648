"""`free_ports`: no two processes get the same port, whether something listens on it yet or not."""

import os
import socket
import subprocess
import sys

import pytest

from barnabas.testing.free_ports import HOST, free_group_port, free_ports

OTHER = "from barnabas.testing.free_ports import free_ports; print(*free_ports({}))"


def ports_of_another_process(count: int) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", OTHER.format(count)], capture_output=True, text=True, check=True
    )
    return [int(port) for port in done.stdout.split()]


def test_ports_of_a_process_are_given_to_no_other_one() -> None:
    own = set(free_ports(100))
    other = ports_of_another_process(9_000)
    assert len(own) == 100
    assert len(set(other)) == 9_000
    assert not own.intersection(other)


def test_ports_are_not_given_twice() -> None:
    ports = [port for _ in range(30) for port in free_ports(7)]
    assert len(set(ports)) == len(ports)


def test_ports_in_use_and_excluded_ports_are_left_out() -> None:
    first = free_ports(1)[0]
    excluded, used = first + 1, first + 2
    with socket.socket() as listening:
        listening.bind((HOST, used))
        listening.listen()
        found = free_ports(3, excluding={excluded})
    assert not {first, excluded, used}.intersection(found)


def test_too_many_ports_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.testing.free_ports._BLOCKS", range(14_500, 14_600, 50))
    with pytest.raises(OSError, match=r"99 free ports of .* wanted, there are 9"):
        free_ports(99)


def test_forked_process_gets_other_ports() -> None:
    own = free_ports(1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(writer, str(free_ports(1)[0]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    given = int(os.read(reader, 10))
    os.close(reader)
    os.close(writer)
    assert given not in [*own, *free_ports(60)]


@pytest.mark.parametrize("count", [0, 1, 60])
def test_as_many_ports_as_wanted(count: int) -> None:
    assert len(free_ports(count)) == count


def test_ports_of_a_group_are_free_for_clients_and_controllers() -> None:
    first = free_group_port(3)
    controller = first + 10_000 + 4
    with socket.socket() as listening:
        listening.bind((HOST, controller))
        listening.listen()
        groups = [free_group_port(3) for _ in range(20)]
    clients = [port + index for port in (first, *groups) for index in range(3)]
    assert len(set(clients)) == len(clients)
    assert controller - 10_000 not in clients
