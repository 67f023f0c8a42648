"""A node in a separate process, for tests that kill it."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from barnabas import parent_pipe
from barnabas.testing.server_context import ServerContext, bootstrap_of, kept_records

_READY = re.compile(r" ready listeners=(\S*)")
_CLIENTS = re.compile(r"PLAINTEXT://[^:,]*:(\d+)")
_OTHER_CLIENTS = re.compile(r"(?:^|,)(?!CONTROLLER)[^:,]+://[^:,]*:(\d+)")
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_LISTENERS = "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"


class NodeProcess(ServerContext):
    """`python -m barnabas serve` with data that outlives it; the port stays over restarts.

    The node also ends when this process ends in any way, as by SIGKILL. Without a retention by time
    in `config`, it keeps records of any age.
    """

    program: Sequence[str] = ("-m", "barnabas")
    """The arguments of Python before `serve`; a test may start the node through a wrapper."""

    def __init__(
        self, data: str | Path | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(data)
        self.config = kept_records(config)
        self.port = 0
        self.log: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._ready = threading.Event()

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients. Raises RuntimeError before the start."""
        return bootstrap_of(self.port)

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the node is not running."""
        return self._running().pid

    def start(self) -> Self:
        """Start, and return once it is ready. Raises RuntimeError with its log otherwise."""
        self.launch()
        return self.wait_ready()

    def launch(self) -> None:
        """Start the process; `wait_ready` returns when it serves clients."""
        self._ready = threading.Event()
        process = self._process = subprocess.Popen(
            self._command(),
            env={**self._environment(), **parent_pipe.ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read_log, args=(process, self._ready), daemon=True).start()

    def _command(self) -> list[str]:
        listeners = _LISTENERS.format(port=self.port)
        settings = {"log.dirs": str(self.data), "listeners": listeners, **self.config}
        command = [sys.executable, *self.program, "serve"]
        return [*command, *(f"--set={name}={value}" for name, value in settings.items())]

    def _environment(self) -> Mapping[str, str]:
        """Return the environment of the process: that of this one."""
        return os.environ

    def wait_ready(self) -> Self:
        """Wait until it serves clients. Raises RuntimeError with its log otherwise."""
        process = self._running()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._ready.wait(0.01):  # a process that ends is noticed at once
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("the node did not start:\n" + "".join(self.log[-30:]))
        return self

    def _read_log(self, process: "subprocess.Popen[str]", ready: threading.Event) -> None:
        if process.stdout is None:
            return
        with process.stdout:
            for line in process.stdout:
                self.log.append(line)
                match = _READY.search(line)
                if match:
                    clients = _CLIENTS.search(match[1]) or _OTHER_CLIENTS.search(match[1])
                    self.port = int(clients[1]) if clients else 0
                    ready.set()

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise RuntimeError("the node is not running")
        return self._process

    def stop(self) -> int:
        """Stop the node with SIGTERM; return the exit code."""
        process = self._running()
        process.terminate()
        try:
            return process.wait(_STOP_TIMEOUT_S)
        finally:
            self.kill()

    def send_kill(self) -> None:
        """Send SIGKILL, and do not wait for the end."""
        self._running().send_signal(signal.SIGKILL)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def suspend(self) -> None:
        """Stop its execution (SIGSTOP): it answers nothing, and its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue its execution (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """True when the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """Kill it if it runs, and remove temporary data."""
        self.kill()
        self._remove_temporary_data()
