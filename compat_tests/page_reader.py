"""Pages of docs/ as a reader follows them: their commands and examples, with other ports only."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import attrs
import pytest

from compat_tests import jars, spark

DOCS: Final = Path(__file__).parent.parent / "docs"
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
_LIMIT_S = 250


@attrs.frozen
class Page:
    """A page of docs/, or a part of one."""

    text: str = attrs.field(repr=False)

    @classmethod
    def of(cls, name: str) -> "Page":
        """Return a whole page."""
        return cls((DOCS / name).read_text())

    def section(self, title: str) -> "Page":
        """Return a section with its subsections."""
        _, _, rest = self.text.partition(f"## {title}\n")
        return Page(re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0])

    @property
    def commands(self) -> list[str]:
        """The commands of console blocks, each on one line."""
        blocks = re.findall(r"^```console\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        joined = "\n".join(blocks).replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def block(self, language: str, first: str) -> str:
        """Return the block whose text begins with `first`."""
        found = re.findall(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        (text,) = [text for text in found if text.startswith(first)]
        return text


@attrs.define
class Reader:
    """A reader of a page: a directory, a PATH with the tools, and the node that runs."""

    page: Page
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
            env={
                **spark.environment(),
                "PATH": path,
                "BARNABAS_BOOTSTRAP": self.given("localhost:9092"),
            },
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
        file.write_text(self.given(self.page.block("python", f"# example: {name}\n")))
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


def new_reader(page: Page, directory: Path, ports: dict[str, int]) -> Reader:
    """Return a reader whose PATH has Kafka's tools; `ports` has those of this machine by those of
    the page.
    """
    (directory / "bin").mkdir()
    for name, main in TOOLS.items():
        script = directory / "bin" / name
        options = shlex.join([*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS])
        script.write_text(f'#!/bin/sh\nexec java {options} -cp "{jars.classpath()}" {main} "$@"\n')
        script.chmod(0o755)
    return Reader(page, directory, ports)
