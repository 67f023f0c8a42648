"""A node in a separate process, for tests that kill it."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_READY = re.compile(r"ready listeners=\S*?PLAINTEXT://([^:,]*):(\d+)")
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_LISTENERS = "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"


class NodeProcess:
    """`python -m barnabas serve` with data that outlives it; the port stays over restarts."""

    def __init__(
        self, data: str | Path | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        self._temporary = None if data else Path(tempfile.mkdtemp(prefix="barnabas-"))
        self.data = Path(data) if data else Path(str(self._temporary))
        self.config = dict(config or {})
        self.port = 0
        self.log: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._ready = threading.Event()

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the node is not running."""
        return self._running().pid

    def __enter__(self) -> "NodeProcess":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> "NodeProcess":
        """Start, and return once it is ready. Raises RuntimeError with its log otherwise."""
        settings = {"listeners": _LISTENERS.format(port=self.port), **self.config}
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(self.data)]
        command += [f"--set={name}={value}" for name, value in settings.items()]
        self._ready = threading.Event()
        process = self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read_log, args=(process, self._ready), daemon=True).start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._ready.wait(0.01):
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
                    self.port = int(match[2])
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

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """Kill it if it runs, and remove temporary data."""
        self.kill()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
