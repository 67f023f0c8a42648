"""The worker's JVM: started when it is first needed, watched, started again after a delay."""

import logging
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from barnabas.config import ConfigError
from barnabas.pipeline.java import jvm_guard, worker_jars, worker_lines, worker_settings
from barnabas.pipeline.java.worker_requests import WorkerClient, WorkerUnreachableError
from barnabas.pipeline.jobs.runner_settings import JavaSettings, RunnerSettings
from barnabas.pipeline.spark import class_archive
from barnabas.pipeline.spark.jar_cache import JarsUnavailableError
from barnabas.pipeline.spark.session import cache_directory

logger = logging.getLogger(__name__)

_GUARD: Final = (sys.executable, "-I", jvm_guard.__file__)
"""Runs the file, not the module: a runner that was submitted to a cluster has its own path."""
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties").as_uri()
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr")
_START_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 60.0
_HEALTHY_S: Final = 60.0
_EXIT_MARGIN_S: Final = 10.0


class WorkerStartError(Exception):
    """The worker cannot start, or has ended; the message says why, and what to do."""


class WorkerProcess:
    """One worker, while this runner is active."""

    def __init__(
        self,
        settings: RunnerSettings,
        java: JavaSettings,
        on_ready: Callable[[WorkerClient], Awaitable[None]],
        on_lost: Callable[[str], Awaitable[None]],
        cache: Path | None = None,
    ) -> None:
        """`on_ready` is called when the worker answers, `on_lost` with the reason when it ends."""
        self.client: WorkerClient | None = None
        """Sends requests to the worker, None while it does not run."""
        self.problem: str | None = None
        """Why the worker does not run, None while it runs, starts or is not needed."""
        self.starts = 0
        self._settings = settings
        self._java = java
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._cache = cache or cache_directory().with_name("java")
        self._needed = trio.Event()
        self._changed = trio.Event()

    def need(self) -> None:
        """Have the worker started, if it is not running."""
        self._needed.set()

    async def wait_change(self) -> None:
        """Return when the worker has become ready or has a problem."""
        await self._changed.wait()

    async def report_problem(self) -> None:
        """Log why the worker could not start if it were needed now."""
        try:
            await trio.to_thread.run_sync(self._check)
        except WorkerStartError as error:
            logger.error("java worker cannot start reason=%s", error)

    async def run(self) -> None:
        """Keep the worker running, once it is needed, until cancelled."""
        await self._needed.wait()
        delay_s = _FIRST_DELAY_S
        while True:
            began = trio.current_time()
            reason = await self._run_once()
            if trio.current_time() - began >= _HEALTHY_S:
                delay_s = _FIRST_DELAY_S
            logger.error("java worker does not run reason=%s delay_s=%g", reason, delay_s)
            self._set(None, f"{reason}; next start in {delay_s:g} s")
            await self._on_lost(reason)
            await trio.sleep(delay_s)
            delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _set(self, client: WorkerClient | None, problem: str | None) -> None:
        self.client, self.problem = client, problem
        self._changed.set()
        self._changed = trio.Event()

    async def _run_once(self) -> str:
        """Run the worker until it ends; return why it ended or could not start."""
        try:
            await trio.to_thread.run_sync(self._check)
            jars = await trio.to_thread.run_sync(
                worker_jars.find_or_fetch, self._cache, abandon_on_cancel=True
            )
            archive = await trio.to_thread.run_sync(class_archive.choose, self._cache, jars.files)
            return await self._run_jvm(jars.class_path, archive)
        except (WorkerStartError, JarsUnavailableError, ConfigError, OSError) as error:
            return str(error)
        finally:
            self.client = None

    def _check(self) -> None:
        """Raise WorkerStartError for what a user has to mend."""
        for each in self._java.plugin_path:
            if not Path(each).is_dir():
                raise WorkerStartError(
                    f"plugin.path={each} is not a directory: create it, with a directory of jars "
                    "for each plug-in, or correct plugin.path"
                )
        needed_by = "the connectors of plugin.path need"
        if problem := class_archive.java_problem(needed_by, "Kafka's Connect"):
            raise WorkerStartError(problem)

    async def _run_jvm(self, class_path: str, archive: class_archive.Choice) -> str:
        """Run the JVM until it ends; return why it ended."""
        run = await self._start_jvm(class_path, archive)
        self.starts += 1
        self.problem = None  # requests wait for the outcome
        logger.info("java worker started pid=%d", run.process.pid)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run.read_lines)
                nursery.start_soon(self._announce, run)
                nursery.start_soon(run.end_when_failed)
                status = await run.process.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await run.stop()
        return run.cause or f"the JVM of the worker ended with status {status}"

    async def _start_jvm(self, class_path: str, archive: class_archive.Choice) -> "_Run":
        directory = Path(tempfile.mkdtemp(prefix="barnabas-java-"))  # its mode is 0700
        try:
            password = secrets.token_urlsafe(32)
            files = worker_settings.write_files(directory, self._settings, self._java, password)
            # Its own process group: Ctrl-C is for the runner, which then ends its children.
            process = await trio.lowlevel.open_process(
                [
                    *(*_GUARD, str(directory), *_archive_files(archive)),
                    *(class_archive.java_command() or "java", *_JVM_OPTIONS, *archive.options),
                    f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
                    f"-Djava.security.auth.login.config={files.login}",
                    *worker_settings.token_options(self._settings),
                    *(*self._java.jvm_options, "-cp", class_path, _MAIN, str(files.properties)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # later the guard does it
            raise
        return _Run(process, password)

    async def _announce(self, run: "_Run") -> None:
        """Report that the worker answers, or end one that does not."""
        with trio.move_on_after(_START_TIMEOUT_S):
            client = WorkerClient(await run.address(), run.password)
            await _wait_healthy(client)
            await self._on_ready(client)
            logger.info("java worker ready url=%s", client.url)
            self._set(client, None)
            return
        logger.error("java worker did not start in time timeout_s=%g", _START_TIMEOUT_S)
        await run.request_end()


def _archive_files(archive: class_archive.Choice) -> tuple[str, str]:
    """Return the names of an archive that the JVM writes at its end, empty without one."""
    if archive.new is None:
        return "", ""
    return str(archive.new.partial), str(archive.new.final)


async def _wait_healthy(client: WorkerClient) -> None:
    while True:
        with suppress(WorkerUnreachableError):
            if (await client.send("GET", "/health")).is_success:
                return
        await trio.sleep(_POLL_S)


@attrs.define
class _Run:
    """One start of the JVM."""

    process: trio.Process
    password: str = attrs.field(repr=False)
    _url: str | None = None
    _told: trio.Event = attrs.field(factory=trio.Event)
    _failed: trio.Event = attrs.field(factory=trio.Event)
    cause: str | None = None
    """Why the worker has given up, None while it has not."""

    async def address(self) -> str:
        """Return the URL of the worker, once it is known."""
        await self._told.wait()
        return self._url or ""

    async def read_lines(self) -> None:
        """Log the lines of the JVM, until it closes its output."""
        stream, rest = self.process.stdout, b""
        if stream is None:
            return
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            while piece := await stream.receive_some():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._take_in(line.decode(errors="replace"))

    def _take_in(self, line: str) -> None:
        url = worker_lines.address_in(line)
        if url is not None:
            self._url = url
            self._told.set()
        cause = worker_lines.fatal_cause(line)
        if cause is not None and self.cause is None:
            self.cause = f"the worker has given up: {cause}"
            self._failed.set()
        if line.strip():
            worker_lines.relay(line)

    async def end_when_failed(self) -> None:
        """End the JVM of a worker that has given up."""
        await self._failed.wait()
        await self.request_end()

    async def request_end(self) -> None:
        """Have the guard end the JVM."""
        if self.process.stdin is not None:
            await self.process.stdin.aclose()

    async def stop(self) -> None:
        """End the JVM, and wait for its end."""
        await self.request_end()
        with trio.move_on_after(jvm_guard.STOP_GRACE_S + _EXIT_MARGIN_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.read_lines)
                await self.process.wait()
                nursery.cancel_scope.cancel()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        if self.process.stdout is not None:
            await self.process.stdout.aclose()
