"""The examples of docs/streams.md and of the README as processes; one is killed while it counts."""

import calendar
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from barnabas import streams
from compat_tests import spark
from compat_tests.installed import Installed
from compat_tests.pace import WAIT_S, Pace
from compat_tests.pipeline.killed_job import children, read_committed
from compat_tests.servers import BarnabasProcess

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.barnabas_only,
    spark.needed,
]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "streams.md").read_text()
README = (ROOT / "README.md").read_text()
PATHS = 5


def example(part: str) -> str:
    """Return the page's block of Python that has a text."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (found,) = [block for block in blocks if part in block]
    return found


def tutorial() -> str:
    """Return the app of the page's tutorial, with the example of plain PySpark in it."""
    script, plain = example('app = ks.App("access"'), example("requests.df")
    return script.replace("\napp.run()", f"\n{plain}\napp.run()")


class AppProcess:
    """`python app.py` with the node of the test, and a state directory below the test's."""

    def __init__(self, installed: Installed, script: str, bootstrap: str, directory: Path) -> None:
        assert script.endswith("\napp.run()\n")
        assert "127.0.0.1:9092" in script
        (directory / "app.py").write_text(script.replace("127.0.0.1:9092", bootstrap))
        self._installed = installed
        self._directory = directory
        self.log = directory / "app.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self._installed.programs / "python", "app.py"],
                cwd=self._directory,
                env=self._installed.environment(XDG_STATE_HOME=str(self._directory / "state")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill the app with SIGKILL: its Python process and its JVM."""
        assert self.process is not None
        for pid in [*children(self.process.pid), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stop the app with SIGTERM; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        pace = Pace()
        while not (found := condition()):
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])
            assert time.monotonic() < deadline, f"no {what} within {WAIT_S:.0f} s:\n{tail}"
            assert self.process is not None
            assert self.process.poll() is None, tail
            pace.pause()
        return found


class Requests:
    """Requests that are sent in portions, each of one minute; each request is counted once."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.start_ms = (int(time.time()) // 60 + 5) * 60_000
        """Behind the page's example, which has the time of its command: no request is late."""
        self._minute = 0
        self.sent = 0
        self.failures: Counter[tuple[str, int]] = Counter()

    def send(self, count: int) -> None:
        minute, self._minute = self._minute, self._minute + 1
        for number in range(self.sent, self.sent + count):
            path = f"/p{number % PATHS}"
            status = 500 if number % 2 else 200
            request = {"user": str(number % 2), "path": path, "status": status}
            request["ms"] = self.start_ms + 60_000 * minute + number
            self._producer.produce("access", json.dumps(request), str(number))
            if status >= 500:
                self.failures[path, minute] += 1
        self.sent += count
        assert self._producer.flush(60) == 0

    def send_bad(self) -> None:
        self._producer.produce("access", "{not JSON", "bad")
        assert self._producer.flush(60) == 0


@pytest.fixture
def node() -> Iterator[BarnabasProcess]:
    process = BarnabasProcess()
    process.start()
    yield process
    process.close()


def run(installed: Installed, bootstrap: str, *commands: str) -> None:
    """Run commands of the page's console blocks."""
    environment = installed.environment(BARNABAS_BOOTSTRAP=bootstrap)
    for line in commands:
        done = subprocess.run(
            ["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=WAIT_S
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_tutorial_counts_each_record_once_when_it_is_killed(installed, node, tmp_path) -> None:
    lines = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    topics = [line for line in lines if line.startswith("barnabas topic create")]
    examples = ["\n".join(line for line in lines if "barnabas produce" in line or "=" in line[:6])]
    results = [line for line in lines if line.startswith("barnabas consume")]
    assert [len(each) for each in (topics, examples, results)] == [4, 1, 2]
    run(installed, node.bootstrap, *topics, "barnabas topic create paths")
    app = AppProcess(installed, tutorial(), node.bootstrap, tmp_path)
    app.start()
    try:
        run(installed, node.bootstrap, *examples)
        for topic in ("access-by-name", "failures-per-minute"):
            app.wait_for(lambda name=topic: read_committed(node.bootstrap, name), topic)
        run(installed, node.bootstrap, *results)
        check_kill(node.bootstrap, app)
    finally:
        if app.process is not None and app.process.poll() is None:
            app.kill()


def check_kill(bootstrap: str, app: AppProcess) -> None:
    requests = Requests(bootstrap)
    requests.send(200)
    requests.send_bad()
    app.wait_for(lambda: len(read_committed(bootstrap, "access-by-name")) > 100, "named requests")
    app.kill()
    requests.send(200)
    app.start()
    requests.send(200)
    app.wait_for(lambda: newest_counts(bootstrap, requests) == requests.failures, "final counts")

    def named() -> list[Any]:
        return read_committed(bootstrap, "access-by-name")

    app.wait_for(lambda: len(named()) >= requests.sent + 1, "named requests")
    assert Counter(each.key() for each in named()) == Counter(
        [b"a", *(str(number).encode() for number in range(requests.sent))]
    )
    app.wait_for(lambda: read_committed(bootstrap, "access-dead-letters"), "dead letter")
    app.wait_for(lambda: len(read_committed(bootstrap, "paths")) > requests.sent, "paths")
    assert app.stop() == 0
    assert len(read_committed(bootstrap, "access-dead-letters")) == 1
    for counts in updates(bootstrap, requests).values():
        assert counts == sorted(set(counts)), "an update came twice"


def test_readme_example_counts_clicks(installed, node, tmp_path) -> None:
    (script,) = re.findall(
        r"```python\n(from barnabas import streams as ks\n.*?)```", README, re.DOTALL
    )
    producer = Producer({"bootstrap.servers": node.bootstrap})
    now_ms = int(time.time() * 1000)
    clicks = [("ann", now_ms), ("bo", now_ms), ("ann", now_ms - 1), ("ann", now_ms + 60_000)]
    for user, ms in clicks:
        producer.produce("clicks", json.dumps({"user": user, "ms": ms}), "k")
    assert producer.flush(60) == 0
    app = AppProcess(installed, script, node.bootstrap, tmp_path)
    app.start()
    try:
        app.wait_for(lambda: clicks_of(node.bootstrap) == {"ann": 3, "bo": 1}, "counts of clicks")
        assert app.stop() == 0
    finally:
        if app.process is not None and app.process.poll() is None:
            app.kill()


def clicks_of(bootstrap: str) -> dict[str, int]:
    """Return the clicks of each user, the sum of the newest counts of its minutes."""
    known = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
    if "clicks-per-minute" not in known:
        return {}
    newest = {each.key(): each.value() for each in read_committed(bootstrap, "clicks-per-minute")}
    found: Counter[str] = Counter()
    for key, value in newest.items():
        found[key[:-8].decode()] += int.from_bytes(value, "big")
    return dict(found)


def test_driver_example_runs_without_kafka(engine) -> None:
    run_with_driver("upper(name)", engine.session)


def test_example_of_the_wall_clock_runs_without_kafka(engine) -> None:
    run_with_driver("class Collect:", engine.session)


def test_example_of_suppression_with_a_limit_runs_without_kafka(engine) -> None:
    run_with_driver("max_records=2", engine.session)


def test_example_of_a_chain_runs_without_kafka(engine) -> None:
    run_with_driver("users-per-level", engine.session)


def run_with_driver(part: str, session: Any) -> None:
    code = example(part)
    assert "TestDriver(describe)" in code
    driver = code.replace("TestDriver(describe)", "TestDriver(describe, session=session)")
    exec(driver, {"ks": streams, "session": session})


def test_example_of_tables_and_processors_runs_without_kafka(engine) -> None:
    names: dict[str, Any] = {}
    exec(example("class Idle:"), names)
    text = {"key": streams.String(), "value": streams.String()}
    with streams.TestDriver(names["describe"], session=engine.session) as driver:
        driver.pipe("teams", ("x", "Crew", 0), ("y", "Cooks", 0))
        ann = {"name": "Ann", "team": "x", "pay": 7}
        driver.pipe("people", ("1", ann, 1_000))
        driver.pipe("logins", ("1", "in", 1_000), ("2", "in", 400_000))
        assert driver.table("titles", **text) == {"1": "Ann, Crew"}
        driver.pipe("people", ("1", {**ann, "team": "y"}, 70_000))
        assert driver.table("titles", **text) == {"1": "Ann, Cooks"}
        pay = driver.table("pay", key=streams.String(), value=streams.Long())
        assert pay == {"x": 0, "y": 7}
        assert driver.table("names", **text) == {"1": "Ann"}
        assert driver.read("idle", **text) == [streams.TestRecord("1", "idle", 400_000)]


def updates(bootstrap: str, requests: Requests) -> dict[tuple[str, int], list[int]]:
    """Return the counts of each path and minute, in the order of their partition."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for message in read_committed(bootstrap, "failures-per-minute"):
        fields = json.loads(message.value())
        at = time.strptime(fields["minute"][:19], "%Y-%m-%dT%H:%M:%S")
        minute = (calendar.timegm(at) * 1000 - requests.start_ms) // 60_000
        if minute >= 0:
            found[fields["path"], minute].append(fields["failures"])
    return found


def newest_counts(bootstrap: str, requests: Requests) -> Counter[tuple[str, int]]:
    return Counter({key: counts[-1] for key, counts in updates(bootstrap, requests).items()})
