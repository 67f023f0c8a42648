"""Kafka's tools in JVMs that each run one after the other (java/ToolRunner.java).

A tool takes 0.45 s of CPU in its own JVM, most of it to start. Tools that run at the same time have
a JVM each, so that one may wait for what another does.
"""

import struct
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).with_name("java") / "ToolRunner.java"
TOOLS: Final = frozenset(
    {
        *("AclCommand", "BrokerApiVersionsCommand", "ClusterTool", "ConfigCommand"),
        *("ConsoleConsumer", "ConsoleProducer", "ConsumerGroupCommand", "DelegationTokenCommand"),
        *("DeleteRecordsCommand", "DumpLogSegments", "FeatureCommand", "GetOffsetShell"),
        *("LeaderElectionCommand", "LogDirsCommand", "MetadataQuorumCommand"),
        *("ReassignPartitionsCommand", "StorageTool", "TopicCommand", "TransactionsCommand"),
    }
)
"""The tools that begin and end with their main method; others run in their own JVM."""
_NUMBER: Final = struct.Struct(">i")


def can_run(main_class: str) -> bool:
    """True when a class is one of these tools."""
    package, _, name = main_class.rpartition(".")
    return name in TOOLS and package.startswith(("org.apache.kafka.tools", "kafka."))


def _text(data: bytes) -> bytes:
    return _NUMBER.pack(len(data)) + data


class ToolRunner:
    """The JVM. The first tool starts it, and the next after one that took too long."""

    def __init__(self, options: Sequence[str]) -> None:
        """`options` are those of the JVM, with the class path."""
        self._command = ["java", *options, str(SOURCE)]
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, main_class: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a tool. Raises TimeoutExpired when it does not end in time."""
        texts = [main_class, *arguments]
        request = _NUMBER.pack(len(texts)) + b"".join(_text(each.encode()) for each in texts)
        process = self._running()
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            status, out, err = self._ask(process, request + _text(stdin.encode()))
        except EOFError:
            process.kill()
            process.communicate()
            if timer.is_alive():
                raise AssertionError(f"{main_class} ended the JVM of the tools") from None
            raise subprocess.TimeoutExpired(texts, timeout_s) from None
        finally:
            timer.cancel()
        return subprocess.CompletedProcess(texts, status, out.decode(), err.decode())

    def close(self) -> None:
        """End the JVM."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    @staticmethod
    def _ask(process: Any, request: bytes) -> tuple[int, bytes, bytes]:
        def number() -> int:
            return _NUMBER.unpack(read(_NUMBER.size))[0]

        def read(size: int) -> bytes:
            data = process.stdout.read(size)
            if len(data) < size:
                raise EOFError
            return data

        try:
            process.stdin.write(request)
            process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        return number(), read(number()), read(number())


class ToolRunners:
    """As many JVMs as tools have run at the same time."""

    def __init__(self, options: Sequence[str]) -> None:
        """`options` are those of each JVM, with the class path."""
        self._options = options
        self._idle = deque[ToolRunner]()

    def run(
        self, main_class: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a tool in a JVM that runs none. Raises TimeoutExpired when it takes too long."""
        try:
            runner = self._idle.pop()
        except IndexError:
            runner = ToolRunner(self._options)
        try:
            return runner.run(main_class, arguments, stdin, timeout_s)
        finally:
            self._idle.append(runner)

    def close(self) -> None:
        """End the JVMs."""
        while self._idle:
            self._idle.pop().close()
