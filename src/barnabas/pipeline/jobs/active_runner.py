"""The active runner: starts, watches and stops jobs as the store wants them.

`JobFleet` decides; this class carries its effects out with the engine, in threads, and writes the
states of jobs to the status topic. It runs for as long as the runner is active; at its end all jobs
and the engine are stopped, and no state is written for that: the next active runner writes its own.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from barnabas.pipeline.delivery.driver.trimmed_offsets import TrimmedReports
from barnabas.pipeline.delivery.plan.job_plan import (
    FORWARD_KINDS,
    JobFailure,
    JobProgress,
    RunningJob,
)
from barnabas.pipeline.jobs.configs_writer import ConfigsWriteError
from barnabas.pipeline.jobs.core.job_fleet import FleetEffect, Forget, JobFleet, WantedJob
from barnabas.pipeline.jobs.core.job_supervision import (
    Failure,
    ReportState,
    RestartPolicy,
    StartRun,
    StopRun,
    TargetState,
)
from barnabas.pipeline.jobs.core.store_records import (
    CommitRecord,
    ConfigRecord,
    FencingRecord,
    RestartRecord,
    TaskRecord,
)
from barnabas.pipeline.jobs.job_failures import failure_of_error, failure_of_job, text_of
from barnabas.pipeline.jobs.job_planning import JobPlanner, JobSpec, PlannedJob
from barnabas.pipeline.jobs.job_statuses import JobStatuses
from barnabas.pipeline.jobs.offset_keeper import keep_offsets
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.pipeline.jobs.running_engine import JobEngine
from barnabas.pipeline.jobs.source_topics import SourceTopics
from barnabas.pipeline.views.live_view import LiveView
from barnabas.pipeline.views.view_job import ViewJob

logger = logging.getLogger(__name__)

_POLL_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 30.0
_ENGINE_BACKOFF_S: Final = (1.0, 60.0)


@attrs.frozen
class _Run:
    """A job that runs."""

    number: int
    job: RunningJob
    needs_session: bool
    trimmed: TrimmedReports = attrs.Factory(TrimmedReports)


@attrs.frozen
class _Seen:
    """The state of a running job at one look."""

    name: str
    run: _Run
    progress: JobProgress | None
    is_running: bool
    failure: JobFailure | None

    @property
    def has_ended(self) -> bool:
        """True for a job that has ended by itself."""
        return self.failure is not None or not self.is_running


class ActiveRunner:
    """Runs the jobs of a group while this runner is active."""

    def __init__(
        self,
        store: RunnerStore,
        engine: JobEngine,
        planner: JobPlanner,
        policy: RestartPolicy,
        statuses: JobStatuses,
        topics: SourceTopics,
    ) -> None:
        self.fleet = JobFleet(policy)
        self.progress: dict[str, JobProgress] = {}
        """The progress of the newest run of each job."""
        self.engine_problem: str | None = None
        """Why no job can run now, None while the engine runs or no job needs it."""
        self._store = store
        self._engine = engine
        self._planner = planner
        self._statuses = statuses
        self._topics = topics
        self._runs: dict[str, _Run] = {}
        self._described: dict[str, JobSpec] = {}
        """The jobs whose tasks were written while they waited for the engine."""
        self._generation = 0
        self._woken = trio.Event()
        self._engine_needed = trio.Event()
        self._engine_lost = trio.Event()
        self._engine_runs = False

    async def run(self) -> None:
        """Run jobs until cancelled. Raises ConfigsWriteError when another runner takes over."""
        await self._store.take_over()
        self._store.on_restart = self._on_restart
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_engine)
                nursery.start_soon(self._follow_store)
                nursery.start_soon(self._wake_in_time)
                nursery.start_soon(self._watch_jobs)
                nursery.start_soon(self._statuses.write_queued)
                nursery.start_soon(keep_offsets, self._store, self._planner)
        finally:
            self._store.on_restart = lambda record: None
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._engine.stop)
                await self._store.release()

    def runs(self, name: str) -> bool:
        """True while a run of a job processes records."""
        return name in self._runs

    def views(self) -> dict[str, LiveView]:
        """Return the views that run, by the names of their jobs."""
        jobs = {name: run.job for name, run in self._runs.items()}
        return {name: job.view for name, job in jobs.items() if isinstance(job, ViewJob)}

    def want_engine(self) -> None:
        """Start the engine, unless it runs, for a caller other than a job."""
        self._engine_needed.set()

    async def _keep_engine(self) -> None:
        """Start the engine with the first job that needs it, and again when it ends by itself.

        It stays when the last job ends: the next one need not wait for it then.
        """
        delay_s, longest_s = _ENGINE_BACKOFF_S
        await self._engine_needed.wait()
        self.engine_problem = "Spark starts"
        while True:
            started = trio.current_time()
            try:
                await trio.to_thread.run_sync(self._engine.start)
            except Exception as error:
                problem = f"Spark cannot start: {text_of(error)}"
                self.engine_problem = problem
                logger.error("%s; retrying delay_s=%g", problem, delay_s)
                logger.debug("trace of the start", exc_info=error)
                self._carry_out(self.fleet.engine_refused(problem, trio.current_time()))
                await trio.sleep(delay_s)
                delay_s = min(delay_s * 2, longest_s)
                continue
            logger.info("Spark started seconds=%.1f", trio.current_time() - started)
            self.engine_problem, delay_s = None, _ENGINE_BACKOFF_S[0]
            self._engine_runs = True
            self._engine_lost = trio.Event()
            self._carry_out(self.fleet.engine_up(trio.current_time()))
            await self._engine_lost.wait()
            lost = [name for name, run in self._runs.items() if run.needs_session]
            logger.error("Spark ended, restarting it jobs=%d", len(lost))
            self.engine_problem = "Spark restarts"
            for name in lost:
                del self._runs[name]
            self._carry_out(self.fleet.engine_down(trio.current_time()))
            await trio.to_thread.run_sync(self._engine.end_session)

    async def _follow_store(self) -> None:
        """Pass the wanted jobs to the fleet, whenever they change."""
        while True:
            changed = self._store.changed
            wanted = {
                name: WantedJob(
                    JobSpec(name, entry.config),
                    entry.target,
                    needs_engine=self._planner.needs_session(entry.config),
                )
                for name, entry in self._store.state.connectors.items()
            }
            self._carry_out(self.fleet.desire(wanted, trio.current_time()))
            if self.fleet.needs_engine:
                self._engine_needed.set()
            self._write_tasks_of_waiting()
            await changed.wait()

    def _write_tasks_of_waiting(self) -> None:
        """Write the tasks of new jobs that wait for the engine: requests see them at once."""
        waiting: dict[str, JobSpec] = self.fleet.held_by_engine()
        for name, spec in waiting.items():
            if self._described.get(name) != spec:
                self._nursery.start_soon(self._describe, spec)
        self._described = waiting

    async def _describe(self, spec: JobSpec) -> None:
        """Write the tasks of a job that waits for the engine. What fails, fails when it starts."""
        try:
            planned = await trio.to_thread.run_sync(self._planner.plan, spec, 0)
            entry = self._store.state.connectors.get(spec.name)
            if entry is None or entry.config != spec.config:
                return  # changed meanwhile
            await self._write_tasks(planned)
        except ConfigsWriteError as error:
            if error.is_fenced:
                raise
            logger.debug("cannot write tasks job=%s error=%s", spec.name, text_of(error))
        except Exception as error:
            logger.debug("cannot plan job=%s", spec.name, exc_info=error)
        else:
            self._carry_out(self.fleet.tasks_known(spec.name, trio.current_time()))

    async def _wake_in_time(self) -> None:
        while True:
            self._woken = trio.Event()
            with trio.move_on_at(self.fleet.wake_at):
                await self._woken.wait()
            self._carry_out(self.fleet.wake(trio.current_time()))

    def _on_restart(self, request: RestartRecord) -> None:
        job = self.fleet.jobs.get(request.connector)
        if job is not None and (job.last_failure is not None or not request.only_failed):
            self._carry_out(self.fleet.restart(request.connector, trio.current_time()))

    def _carry_out(self, effects: Sequence[FleetEffect]) -> None:
        for each in effects:
            if isinstance(each, Forget):
                self.progress.pop(each.job, None)
                self._statuses.forget(each.job)
                continue
            name = each.job
            match each.effect:
                case StartRun(spec, run):
                    self._nursery.start_soon(self._start, spec, run)
                case StopRun(run):
                    self._nursery.start_soon(self._stop, name, run)
                case ReportState() as report:
                    self._statuses.report(name, report)
        self._woken.set()

    async def _start(self, spec: JobSpec, run: int) -> None:
        """Plan and start a job, and report the outcome to the fleet."""
        name = spec.name
        self._generation += 1
        plan = partial(self._planner.plan, spec, self._generation)
        try:
            planned = await trio.to_thread.run_sync(plan)
            await self._write_tasks(planned)
            ready = await self._topics.prepare(planned.plan)
            job = await trio.to_thread.run_sync(self._engine.start_job, ready)
        except ConfigsWriteError as error:
            if error.is_fenced:
                raise
            self._failed(name, run, Failure(str(error), str(error)))
        except Exception as error:
            if await self._has_lost_engine(spec):
                return  # not the job's failure: it starts again with the engine
            failure = failure_of_error(error)
            if not failure.is_permanent:
                logger.debug("start failed job=%s", name, exc_info=error)
            self._failed(name, run, failure)
        else:
            logger.info("started job=%s kind=%s", name, planned.plan.kind)
            self._runs[name] = _Run(run, job, planned.plan.needs_session)
            self._carry_out(self.fleet.started(name, run, trio.current_time()))

    async def _has_lost_engine(self, spec: JobSpec) -> bool:
        """True when a job needs the session, which has ended meanwhile."""
        if not self._planner.needs_session(spec.config):
            return False
        return not await trio.to_thread.run_sync(self._engine.is_alive)

    def _failed(self, name: str, run: int, failure: Failure) -> None:
        logger.error(
            "job failed job=%s permanent=%s error=%s", name, failure.is_permanent, failure.message
        )
        self._forget_rate(name)
        self._carry_out(self.fleet.failed(name, run, failure, trio.current_time()))

    def _forget_rate(self, name: str) -> None:
        """Show that a job which has ended processes nothing; its totals stay."""
        if name in self.progress:
            ended = attrs.evolve(self.progress[name], records_per_second=0.0, lag_s=0.0)
            self.progress[name] = ended

    async def _write_tasks(self, planned: PlannedJob) -> None:
        """Write the configurations of a job's tasks, unless they are stored already."""
        name, tasks = planned.plan.name, planned.stored_tasks
        entry = self._store.state.connectors.get(name)
        if entry is None or (entry.tasks == list(tasks) and not entry.is_inconsistent):
            return
        records: list[ConfigRecord] = [
            TaskRecord(name, number, task) for number, task in enumerate(tasks)
        ]
        records.append(CommitRecord(name, len(tasks)))
        if planned.plan.kind == "source":
            records.append(FencingRecord(name, len(tasks)))
        await self._store.write_configs(records)
        stored = self._store.state.connectors.get(name)
        if stored is not None and stored.target is TargetState.STOPPED:  # meanwhile
            await self._store.write_configs([CommitRecord(name, 0)])

    async def _stop(self, name: str, number: int) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            _report_trimmed(name, run.trimmed.rest())
        if run is not None and run.number == number:
            try:
                await trio.to_thread.run_sync(run.job.stop, _STOP_TIMEOUT_S)
            except Exception as error:
                logger.warning("stop failed job=%s error=%s", name, text_of(error))
        logger.info("stopped job=%s", name)
        self._forget_rate(name)
        self._carry_out(self.fleet.stopped(name, number, trio.current_time()))

    async def _watch_jobs(self) -> None:
        """Look at all running jobs every second."""
        while True:
            await trio.sleep(_POLL_S)
            if self._engine_runs and not await trio.to_thread.run_sync(self._engine.is_alive):
                self._engine_runs = False
                self._engine_lost.set()
                self.engine_problem = "Spark ended"
                continue
            runs = dict(self._runs)
            found = await trio.to_thread.run_sync(_look, runs)
            ended = any(seen.has_ended and seen.run.needs_session for seen in found)
            if ended and not await trio.to_thread.run_sync(self._engine.is_alive):
                continue  # the jobs have not failed: the next look finds that the engine has ended
            for seen in found:
                self._take_in(seen)

    def _take_in(self, seen: _Seen) -> None:
        if self._runs.get(seen.name) is not seen.run:
            return  # stopped meanwhile
        if seen.progress is not None:
            self.progress[seen.name] = seen.progress
            count = seen.run.trimmed.due(seen.progress.trimmed, trio.current_time())
            _report_trimmed(seen.name, count)
            plan = seen.run.job.plan
            self._statuses.track_topics(seen.name, plan, seen.progress)
            new = {each.topic for each in seen.progress.lag} - plan.topic_ids.keys()
            if new and plan.kind in FORWARD_KINDS:
                self._nursery.start_soon(self._topics.learn, plan, new)
        if not seen.has_ended:
            return
        del self._runs[seen.name]
        _report_trimmed(seen.name, seen.run.trimmed.rest())
        failure = seen.failure or JobFailure("the job ended by itself", is_permanent=False)
        self._failed(seen.name, seen.run.number, failure_of_job(failure))


def _report_trimmed(name: str, offsets: int) -> None:
    if offsets:
        logger.warning(
            "skipped offsets that retention deleted before they were read job=%s offsets=%d",
            name,
            offsets,
        )


def _look(runs: dict[str, _Run]) -> list[_Seen]:
    """Return the state of running jobs; runs in a thread."""
    return [_look_at(name, run) for name, run in runs.items()]


def _look_at(name: str, run: _Run) -> _Seen:
    job = run.job
    try:
        is_running = job.is_running()  # before `failure`, which is known when it ends
        return _Seen(name, run, job.progress(), is_running, job.failure())
    except Exception as error:
        logger.warning("cannot read progress job=%s error=%s", name, text_of(error))
        return _Seen(name, run, None, True, None)
