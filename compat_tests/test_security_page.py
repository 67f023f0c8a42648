"""docs/security.md, followed to the letter: its commands and examples, with other ports only."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer

from barnabas.config import properties_file
from barnabas.testing.free_ports import free_group_port, free_ports
from compat_tests import jars, spark

PAGE = (Path(__file__).parent.parent / "docs/security.md").read_text()
TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
COMPANIONS = (
    ("registry", "8081", "schema registry ready"),
    ("pipelines", "8083", "pipelines ready"),
)
_LIMIT_S = 120

pytestmark = [jars.needed, pytest.mark.barnabas_only]


def section(title: str) -> str:
    """Return a section of the page with its subsections."""
    _, _, rest = PAGE.partition(f"## {title}\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def commands(text: str) -> list[str]:
    """Return the commands of console blocks, each on one line."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def block(language: str, first: str) -> str:
    """Return the block whose text begins with `first`."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = [text for text in found if text.startswith(first)]
    return text


SECURED = section("A secured node with one option")


@attrs.define
class Reader:
    """A reader of the page: a directory, a PATH with the tools, and the node that runs."""

    directory: Path
    ports: dict[str, int]
    password: str = ""
    node: "subprocess.Popen[str] | None" = None
    output: list[str] = attrs.field(factory=list)

    def given(self, text: str) -> str:
        """Return a text of the page with this machine's ports, and the printed password."""
        ports = "|".join(self.ports)
        text = re.sub(rf":({ports})\b", lambda found: f":{self.ports[found[1]]}", text)
        return text.replace("admin:PASSWORD", f"admin:{self.password}")

    def run(self, command: str) -> str:
        """Run a command of the page; return what it prints."""
        if command.startswith("barnabas serve"):
            self.serve(command)
            return ""
        path = f"{self.directory / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", self.given(command)],
            cwd=self.directory,
            env={**spark.environment(), "PATH": path},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + "".join(self.output)
        return done.stdout + done.stderr

    def fails(self, command: str) -> str:
        """Run a command that is refused; return what it prints."""
        with pytest.raises(AssertionError) as caught:
            self.run(command)
        return str(caught.value)

    def run_python(self, name: str) -> str:
        """Run an example of the page; return what it prints."""
        file = self.directory / f"{name}.py"
        file.write_text(self.given(block("python", f"# example: {name}\n")))
        return self.run(shlex.join([sys.executable, file.name]))

    def serve(self, command: str) -> None:
        """Start a node in place of the one that runs, and wait until all of it is ready."""
        self.stop()
        words = shlex.split(self.given(command))[1:]
        waits = ["It is shown once" if "--nodes" in words else " ready listeners="]
        if "listeners=" not in command:
            words += ["--listen", f"127.0.0.1:{self.ports['9092']}"]
        for companion, port, ready in COMPANIONS:
            if f"--{companion}" in words:
                words += [f"--{companion}-listen", f"127.0.0.1:{self.ports[port]}"]
                waits.append(ready)
        self.output.clear()
        self.node = subprocess.Popen(
            [sys.executable, "-m", "barnabas", *words],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=spark.environment(),
        )
        threading.Thread(target=self._read, args=(self.node,), daemon=True).start()
        deadline = time.monotonic() + _LIMIT_S
        while not all(any(text in line for line in self.output) for text in waits):
            assert self.node.poll() is None, "".join(self.output)
            assert time.monotonic() < deadline, "".join(self.output)
            time.sleep(0.05)

    def _read(self, node: "subprocess.Popen[str]") -> None:
        with node.stdout or open(os.devnull) as lines:
            for line in lines:
                self.output.append(line)
                if found := re.match(r"The user admin has the password (\S+)", line):
                    self.password = found[1]

    def stop(self) -> None:
        if self.node is not None:
            self.node.send_signal(signal.SIGTERM)
            self.node.wait(_LIMIT_S)
            self.node = None


def new_reader(directory: Path, ports: dict[str, int]) -> Reader:
    (directory / "bin").mkdir()
    for name, main in TOOLS.items():
        script = directory / "bin" / name
        options = shlex.join([*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS])
        script.write_text(f'#!/bin/sh\nexec java {options} -cp "{jars.classpath()}" {main} "$@"\n')
        script.chmod(0o755)
    return Reader(directory, ports)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    names = ("9092", "9093", "9094", "8081", "8083")
    found = new_reader(
        tmp_path_factory.mktemp("page"), dict(zip(names, free_ports(len(names)), strict=True))
    )
    alice = found.directory / "alice.properties"
    alice.write_text(block("properties", "security.protocol=SASL_SSL"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def alice(reader: Reader) -> Reader:
    """The secured node of the page with its user alice, who has written a record."""
    install, serve, create, users, acls = commands(SECURED)[:5]
    assert install == "pip install '.[tls]'"
    reader.run(serve)
    assert reader.password
    reader.run(create)
    assert "Completed updating config for user alice" in reader.run(users)
    assert "User:alice" in reader.run(acls)
    assert reader.run_python("confluent-kafka") == "one castle\n"
    return reader


def test_user_of_a_secured_node_writes_and_reads_with_javas_tools(alice: Reader) -> None:
    produce, consume = commands(SECURED)[5:7]
    alice.run(produce)
    assert "another castle\n" in alice.run(consume)
    assert "GroupAuthorizationException" in alice.run(consume.replace("readers", "others"))


@spark.needed
@pytest.mark.timeout(300)
def test_user_of_a_secured_node_reads_with_spark(alice: Reader) -> None:
    assert int(alice.run_python("spark").split("\n")[0]) >= 1


@spark.needed
def test_companions_of_a_secured_node_serve_its_users(alice: Reader) -> None:
    companions, write, register, schemas, jobs = commands(SECURED)[7:]
    alice.run(companions)
    alice.run(write)
    assert alice.run(register) == "orders-value version 1 id 1\n"
    assert "orders-value" in alice.run(schemas)
    assert alice.run(jobs).count("\n") == 1
    refused = alice.fails(register.replace("orders-value", "payments-value"))
    assert "User is denied operation Write on Subject: payments-value" in refused
    job = {"connector.class": "FileStreamSource", "file": "secured/admin.conf", "topic": "orders"}
    (alice.directory / "job.json").write_text(json.dumps({"name": "j", "config": job}))
    create = jobs.replace("job list", "job create job.json")
    assert "User alice is a read-only user" in alice.fails(create)


def test_several_secured_nodes_serve_confluent_kafka_and_javas_tools(tmp_path: Path) -> None:
    serve, create, describe = commands(section("Several secured nodes with one option"))
    port = free_group_port(3)
    group = new_reader(tmp_path, {"9092": port, "9093": port + 1})
    try:
        group.run(serve)
        group.run(create)
        described = group.run(describe)
        assert "PartitionCount: 3\tReplicationFactor: 3" in described
        settings = properties_file.read(tmp_path / "secured/admin.conf")
        producer = Producer({**settings, "acks": "all"})
        refused: list[object] = []
        for partition in range(3):
            producer.produce(
                "payments",
                b"a castle",
                partition=partition,
                callback=lambda error, _: refused.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert refused == []
    finally:
        group.stop()


def test_certificates_of_certs_and_of_keytool_open_the_listener(reader: Reader) -> None:
    made, serve, read, keytool, export, serve_store, read_store = commands(section("TLS"))[:7]
    assert "certs/alice.pem" in reader.run(made)
    reader.run(serve)
    assert "TOPIC" in reader.run(read)
    reader.run(keytool)
    reader.run(export)
    reader.run(serve_store)
    assert "TOPIC" in reader.run(read_store)
