"""The input of Spark's Python workers."""

import io
import os
import socket
from typing import Any

import pytest

from barnabas.pipeline.spark.python_daemon import AcknowledgedInput, acknowledged


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK")
def test_task_reads_its_input_in_parts_and_to_the_end() -> None:
    sender, receiver = tcp_pair()
    seen: list[Any] = []

    def run(infile: Any, outfile: Any) -> int:
        seen.append(infile.read(3))
        sender.sendall(b"defg")
        sender.close()
        seen.extend([infile.read(2), infile.read(), outfile, type(infile.raw)])
        return 7

    sender.sendall(b"abc")
    with receiver, os.fdopen(os.dup(receiver.fileno()), "rb") as infile:
        assert acknowledged(run)(infile, "out") == 7
    assert seen == [b"abc", b"de", b"fg", "out", AcknowledgedInput]


def test_input_that_is_not_of_tcp_stays_as_it_is() -> None:
    first, second = socket.socketpair()
    with first, second, os.fdopen(os.dup(second.fileno()), "rb") as infile:
        same: list[io.BufferedReader] = []
        acknowledged(lambda given, _: same.append(given))(infile, None)
        assert same == [infile]
        first.sendall(b"x")
        assert infile.read(1) == b"x"
