"""Hosts on one machine: network namespaces on a bridge, and mount namespaces.

This machine is a host as well, with the address `Network.address`. The namespaces need root.
"""

import contextlib
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from barnabas.testing.free_ports import free_ports
from compat_tests.jars import ROOT

FOLDER = Path("/srv/host")
"""The folder of each host, which no other host sees."""
SPARK = Path("/srv/spark")
_MOTO = ROOT / ".cache" / "moto" / "bin" / "python"
_SCRIPT = """
spark=$1; shift
mount -t tmpfs tmpfs /srv
mkdir /srv/spark /srv/host
mount --bind "$spark" /srv/spark
while [ "$1" != -- ]; do mount -t tmpfs tmpfs "$1"; shift; done
shift
cd /srv/host
exec "$@"
"""


def missing() -> str | None:
    """Return in one line why there can be no such hosts here, or None."""
    if os.geteuid() != 0:
        return "network and mount namespaces need root: run the test as root"
    for program in ("ip", "unshare", "mount"):
        if shutil.which(program) is None:
            return f"{program} is missing (Debian: apt install iproute2 util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "true"], capture_output=True, check=False
    )
    if tried.returncode != 0:
        return f"namespaces are not permitted here: {tried.stderr.decode().strip()}"
    if not _MOTO.exists():
        return "moto is missing: run `make compat-growth`, which installs it"
    return None


class Network:
    """A bridge with an address of this machine, and hosts with their own addresses."""

    def __init__(self) -> None:
        number = os.getpid()
        self._prefix = f"10.231.{number % 254}"
        self._bridge = f"bb{number}"
        self._hosts: list[str] = []
        self.address = f"{self._prefix}.1"

    def start(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")

    def add_host(self) -> tuple[str, str]:
        """Add a host; return its name and its address."""
        number = len(self._hosts) + 2
        name, address = f"{self._bridge}-{number}", f"{self._prefix}.{number}"
        _ip("netns", "add", name)
        self._hosts.append(name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "master", self._bridge, "up")
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        return name, address

    def stop(self) -> None:
        for name in self._hosts:
            _ip("netns", "delete", name)
        _ip("link", "delete", self._bridge)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def command(host: str, spark: Path, hidden: Sequence[Path], program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on a host.

    The host has Spark at `SPARK`, and an empty folder in place of each folder of `hidden`.
    """
    enter = ["ip", "netns", "exec", host, "unshare", "--mount", "--propagation", "private"]
    folders = [str(folder) for folder in hidden]
    return [*enter, "sh", "-ec", _SCRIPT, "sh", str(spark), *folders, "--", *program]


class ObjectStore:
    """A server of S3's protocol (moto) with one bucket, which keeps the objects in memory."""

    bucket = "bucket"

    def __init__(self, address: str, directory: Path) -> None:
        (self.port,) = free_ports(1)
        self._address = address
        self.url = f"http://{address}:{self.port}"
        self._log = directory / "store.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = [str(_MOTO), "-m", "moto.server", "-H", self._address, "-p", str(self.port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(program, stdout=log, stderr=log)
        deadline = time.monotonic() + 240
        while not self._has_bucket():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)

    def _has_bucket(self) -> bool:
        """Create the bucket; False while the server does not answer."""
        request = urllib.request.Request(f"{self.url}/{self.bucket}", method="PUT")
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status == 200
        return False

    def requests(self, wanted: str) -> int:
        """Return how many requests have named something."""
        return self._log.read_text(errors="replace").count(wanted)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
