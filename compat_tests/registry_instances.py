"""Registries that are killed under load: no id twice, no version twice, nothing acknowledged lost.

`python -m compat_tests.registry_instances --seconds 60 --every 1` kills one of three instances
each second for a minute and reports what happened.
"""

import argparse
import http.client
import itertools
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from barnabas.testing.free_ports import free_ports
from compat_tests.servers import BarnabasProcess

_READY = re.compile(r"schema registry ready url=http://127.0.0.1:(\d+)")
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_START_TIMEOUT_S = 90


class RegistryInstance:
    """One registry process on a port that stays the same over restarts."""

    def __init__(self, bootstrap: str, directory: Path, *options: str) -> None:
        self.bootstrap = bootstrap
        (self.port,) = free_ports(1)
        self.log = directory / f"registry-{self.port}.log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "barnabas", "registry", "--bootstrap", self.bootstrap]
        command += ["--listen", f"127.0.0.1:{self.port}", *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if request(self.port, "GET", "/healthz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise TimeoutError(f"the registry did not start: {self.log.read_text()[-2000:]}")

    def leads(self) -> bool:
        """True when the instance says that it is the leader."""
        try:
            return b"\nbarnabas_registry_leader 1.0" in request(self.port, "GET", "/metrics")[1]
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the process at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop the process gracefully."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None


def request(
    port: int, method: str, path: str, body: Any = None, timeout: float = 30
) -> tuple[int, Any]:
    """Send one request and return status and answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": _CONTENT_TYPE})
        answer = connection.getresponse()
        content = answer.read()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(content) if is_json and content else content
    except http.client.HTTPException as error:
        raise ConnectionError(repr(error)) from None
    finally:
        connection.close()


@contextmanager
def instances(bootstrap: str, count: int, *options: str) -> Iterator[list[RegistryInstance]]:
    """Run registries that share a topic."""
    with TemporaryDirectory() as directory:
        found = [RegistryInstance(bootstrap, Path(directory), *options) for _ in range(count)]
        try:
            for instance in found:
                instance.start()
            for instance in found:
                instance.wait_ready()
            yield found
        finally:
            for instance in found:
                instance.stop()


@dataclass
class Outcome:
    """Acknowledged registrations: subject and field to id and version; and how long gaps were."""

    acknowledged: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    failures: int = 0
    kills: int = 0
    leader_killed_at: list[float] = field(default_factory=list)
    attempts: list[tuple[float, float]] = field(default_factory=list)
    """When each acknowledged request was sent, and when it was acknowledged."""

    @property
    def longest_gap_s(self) -> float:
        times = sorted(at for _, at in self.attempts)
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    @property
    def new_leader_s(self) -> list[float]:
        """For each kill of the leader: seconds until a request sent after it is acknowledged."""
        return [
            min((at for sent, at in self.attempts if sent > killed), default=float("inf")) - killed
            for killed in self.leader_killed_at
        ]

    def __str__(self) -> str:
        waits = sorted(self.new_leader_s) or [0.0]
        return (
            f"{len(self.acknowledged)} registrations acknowledged, {self.kills} kills, "
            f"{len(self.leader_killed_at)} of the leader, {self.failures} attempts failed, longest "
            f"gap {self.longest_gap_s:.2f} s; seconds to a new leader: median "
            f"{waits[len(waits) // 2]:.2f}, 95th percentile {waits[int(len(waits) * 0.95)]:.2f}, "
            f"longest {waits[-1]:.2f}"
        )


def schema_text(name: str) -> str:
    fields = [{"name": name, "type": "int", "default": 0}]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


class Load:
    """Clients that register schemas at any instance until each is acknowledged."""

    def __init__(self, found: list[RegistryInstance], clients: int) -> None:
        self.outcome = Outcome()
        self._instances = found
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(n,)) for n in range(clients)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _client(self, number: int) -> None:
        chance = random.Random(number)
        count = 0
        while not self._end.is_set():
            subject, name = f"s{chance.randrange(20)}", f"f{number}x{count}"
            body = {"schema": schema_text(name)}
            count += 1
            while not self._try(chance, subject, name, body) and not self._end.is_set():
                time.sleep(0.02)

    def _try(self, chance: random.Random, subject: str, name: str, body: Any) -> bool:
        port = chance.choice(self._instances).port
        sent = time.monotonic()
        try:
            status, answer = request(port, "POST", f"/subjects/{subject}/versions", body)
        except OSError:
            status, answer = 0, None
        with self._lock:
            if status != 200:
                assert status in (0, 500, 503), (status, answer)
                self.outcome.failures += 1
                return False
            self.outcome.acknowledged[subject, name] = (answer["id"], answer["version"])
            self.outcome.attempts.append((sent, time.monotonic()))
            return True


def run_with_kills(
    found: list[RegistryInstance],
    seconds: float,
    every_s: float,
    choose: Callable[[list[RegistryInstance]], RegistryInstance] = random.choice,
) -> Outcome:
    """Kill and restart an instance again and again under load; return what was acknowledged."""
    load = Load(found, 4)
    load.start()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(every_s)
            victim = choose(found)
            leads = victim.leads()
            victim.kill()
            load.outcome.kills += 1
            if leads:
                load.outcome.leader_killed_at.append(time.monotonic())
            victim.start()
    finally:
        load.stop()
    for instance in found:
        instance.wait_ready()
    return load.outcome


def check(found: list[RegistryInstance], outcome: Outcome) -> None:
    """Compare every instance with what was acknowledged."""
    ids: dict[int, str] = {}
    versions: dict[tuple[str, int], str] = {}
    for (subject, name), (schema_id, version) in outcome.acknowledged.items():
        assert ids.setdefault(schema_id, name) == name, f"id {schema_id} has two contents"
        key = subject, version
        assert versions.setdefault(key, name) == name, f"{subject} version {version} twice"
    for instance in found:
        stored = all_versions(instance)
        for (subject, name), (schema_id, version) in outcome.acknowledged.items():
            text, held_id = stored[subject, version]
            assert held_id == schema_id
            assert f'"{name}"' in text, f"{instance.url}: {subject} version {version} was lost"


def all_versions(instance: RegistryInstance) -> dict[tuple[str, int], tuple[str, int]]:
    """Return text and id of all versions, once the instance has read to the end."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    offset = 0
    while True:
        status, page = request(instance.port, "GET", f"/schemas?offset={offset}")
        assert status == 200, page
        if not page:
            return found
        offset += len(page)
        found |= {(e["subject"], e["version"]): (e["schema"], e["id"]) for e in page}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--at-least", type=int, default=1000, help="acknowledged registrations")
    parser.add_argument("--bootstrap", help="[default: a new node]")
    arguments = parser.parse_args()
    server = None if arguments.bootstrap else BarnabasProcess()
    if server is not None:
        server.start()
    try:
        with instances(arguments.bootstrap or server.bootstrap, 3) as found:
            outcome = run_with_kills(found, arguments.seconds, arguments.every)
            check(found, outcome)
    finally:
        if server is not None:
            server.close()
    print(f"{outcome}: no id twice, no version twice, none lost")
    if len(outcome.acknowledged) < arguments.at_least:
        raise SystemExit(f"fewer than {arguments.at_least} registrations acknowledged")


if __name__ == "__main__":
    main()
