"""`barnabas sql` with the script of docs/sql.md: rows move, also after the process was killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests import spark as setup
from compat_tests.pace import WAIT_S, Pace
from compat_tests.pipeline.killed_job import children, read_committed
from tests.registry.live_registry import live_registry

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.barnabas_only,
    setup.needed,
]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text()
PROGRAM = Path(sys.executable).parent / "barnabas"


def command(bootstrap: str, directory: Path, *arguments: str) -> list[str]:
    options = ["--bootstrap", bootstrap, "--state", str(directory / "state")]
    return [str(PROGRAM), "sql", *options, *arguments]


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process and its JVM with SIGKILL."""
    pids = [*children(process.pid), process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    process.wait()


def await_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until = time.monotonic() + WAIT_S
    while topic not in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < until, f"no topic {topic}"
        time.sleep(0.2)


def await_rows(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    until = time.monotonic() + WAIT_S
    pace = Pace()
    while len(found := [each.value() for each in read_committed(bootstrap, topic)]) < count:
        assert time.monotonic() < until, f"{len(found)} rows, and not {count}"
        pace.pause()
    return found


def start(bootstrap: str, directory: Path, stderr: int | None = None) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command(bootstrap, directory, "-f", str(directory / "clicks.sql")),
        env=setup.environment(),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        value = json.dumps({"url": f"/{number % 3}", "ms": 101 * (number % 2), "n": number})
        producer.produce(topic, value, number.to_bytes(4, "big"))
    assert producer.flush(30) == 0


def test_script_of_the_page_continues_after_a_kill(
    bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic, slow, counts = unique("clicks"), unique("SLOW"), unique("COUNTS")
    page = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)[0]
    script = page.replace("'clicks'", f"'{topic}'")
    for name, sink in (("slow", slow), ("per_url", counts)):
        script = script.replace(f" {name} AS", f" {name} WITH (kafka_topic='{sink}') AS")
    (tmp_path / "clicks.sql").write_text(script)
    process = start(bootstrap, tmp_path)
    try:
        await_topic(bootstrap, counts)
        produce(bootstrap, topic, range(20))
        await_rows(bootstrap, slow, 10)
        await_rows(bootstrap, counts, 3)
        kill(process)
        produce(bootstrap, topic, range(20, 40))
        process = start(bootstrap, tmp_path)
        rows = await_rows(bootstrap, slow, 20)
        assert Counter(rows) == Counter(
            json.dumps({"URL": f"/{number % 3}", "MS": 101}).replace(" ", "").encode()
            for number in range(40)
            if number % 2
        )
        until = time.monotonic() + WAIT_S
        while newest(bootstrap, counts) != {"/0": 14, "/1": 13, "/2": 13}:
            assert time.monotonic() < until, newest(bootstrap, counts)
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
        (tmp_path / "clicks.sql").write_text(script.replace("COUNT(*)", "SUM(ms)"))
        process = start(bootstrap, tmp_path, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        (line,) = [each for each in errors.decode().splitlines() if "does not fit" in each]
        assert "failed: the query does not fit its state: state 1 is 'aggregate of count" in line
        assert line.endswith(
            "bring the earlier version back, or give another --name, with which "
            "queries read all records again"
        )
    finally:
        if process.poll() is None:
            kill(process)


def newest(bootstrap: str, topic: str) -> dict[str, int]:
    rows = read_committed(bootstrap, topic)
    return {each.key().decode(): json.loads(each.value())["N"] for each in rows}


def test_select_prints_rows_and_ends(
    bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("clicks")
    script = f"""
    CREATE STREAM clicks (id INT KEY, url STRING)
        WITH (kafka_topic='{topic}', value_format='JSON', partitions=1);
    INSERT INTO clicks VALUES (1, '/pay');
    INSERT INTO clicks (url, id) VALUES ('/', 2);
    """
    (tmp_path / "clicks.sql").write_text(script)
    select = "SELECT id, LEN(url) AS n FROM clicks; SELECT url FROM clicks EMIT CHANGES LIMIT 1;"
    arguments = ["-f", str(tmp_path / "clicks.sql"), "--json", "-e", select]
    found = subprocess.run(
        command(bootstrap, tmp_path, *arguments),
        env=setup.environment(),
        stdout=subprocess.PIPE,
        timeout=WAIT_S,
        check=True,
    )
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"ID": 1, "N": 4},
        {"ID": 2, "N": 1},
        {"URL": "/pay"},
    ]


def test_columns_are_those_of_the_registry(
    bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    fields = [{"name": "item", "type": "string"}, {"name": "n", "type": ["null", "long"]}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    script = f"""
    CREATE STREAM orders WITH (kafka_topic='{topic}', value_format='AVRO', partitions=1);
    DESCRIBE orders;
    """
    with live_registry(bootstrap, unique("_schemas_of_scripts")) as url:
        path = f"{url}/subjects/{topic}-value/versions"
        httpx.post(path, json={"schema": schema}).raise_for_status()
        found = subprocess.run(
            command(bootstrap, tmp_path, "--registry", url, "-e", script),
            env=setup.environment(),
            stdout=subprocess.PIPE,
            timeout=WAIT_S,
            check=True,
        )
    words = [line.split() for line in found.stdout.decode().splitlines()]
    assert [each for each in words if each[-1:] in (["STRING"], ["BIGINT"])] == [
        ["ITEM", "STRING"],
        ["N", "BIGINT"],
    ]


def test_wrong_statement_is_named_with_its_place(bootstrap: str, tmp_path: Path) -> None:
    script = "CREATE TYPE a AS INT;\n  DROP STREAM nothing;"
    found = subprocess.run(
        command(bootstrap, tmp_path, "-e", script),
        env=setup.environment(),
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert found.returncode == 1
    assert b"line 2:15: There is no stream or table NOTHING" in found.stderr
