"""A node process whose test ends without closing it."""

import subprocess
import sys
from pathlib import Path

from barnabas.testing.eventually import wait_until
from tests.processes import is_alive

_KILLED_TEST = """
import os, signal, sys
from barnabas.testing.process import NodeProcess
node = NodeProcess(sys.argv[1]).start()
print(node.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_node_process_ends_with_a_test_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED_TEST, str(tmp_path)]
    killed = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False)
    pid = int(killed.stdout)
    wait_until(lambda: not is_alive(pid), 120)
