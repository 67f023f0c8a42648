"""`python -m compat_tests.cluster.refused_node FILE serve ...`: a node that some ports refuse.

The node is the same as with `python -m barnabas`; only the call that connects a socket is wrapped.
FILE lists ports, one on a line. A test writes it while the node runs. As long as a port is in the
file, a connection to it fails with ECONNREFUSED, as behind a firewall that rejects this node.
"""

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Any


def install(file: Path) -> None:
    """Wrap the connections of this process."""
    connect = socket.socket.connect

    def checked(self: socket.socket, address: Any) -> None:
        if file.exists() and _port(address) in file.read_text().split():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        connect(self, address)

    socket.socket.connect = checked  # type: ignore[method-assign]


def _port(address: Any) -> str:
    """Return the port of a socket's address, empty for a path of a Unix domain socket."""
    return "" if isinstance(address, str | bytes) else str(address[1])


def main() -> None:
    """Wrap the connections, and run the command line of barnabas."""
    install(Path(sys.argv.pop(1)))
    from barnabas.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
