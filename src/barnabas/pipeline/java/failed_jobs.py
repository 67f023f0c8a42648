"""When to restart the worker's failed jobs: a state machine without a clock and without requests.

Java's Connect leaves a failed task alone. The runner restarts the worker's failed jobs as its own:
after a delay that doubles with each failure in a row, up to `barnabas.restart.max` times.
"""

from collections.abc import Collection
from typing import Final

import attrs

from barnabas.pipeline.jobs.core.job_supervision import RestartPolicy

_NEVER: Final = float("inf")


@attrs.define
class _Failing:
    """A job that has failed lately; times are in seconds."""

    failures: int = 0
    """In a row."""
    restart_at: float | None = None
    """None while the job is not failed."""
    recovered_at: float | None = None
    """None while the job is failed."""


class FailedJobs:
    """The failed jobs of one worker."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._jobs: dict[str, _Failing] = {}

    def due(self, failed: Collection[str], now: float) -> list[str]:
        """Return the jobs to restart now; `failed` are the ones that are failed at this moment."""
        self._note_recovered(failed, now)
        found: list[str] = []
        for name in failed:
            job = self._jobs.setdefault(name, _Failing())
            if job.restart_at is None:
                job.failures += 1
                job.recovered_at = None
                delay_s = self._policy.delay_s(job.failures)
                job.restart_at = _NEVER if delay_s is None else now + delay_s
            elif now >= job.restart_at:
                job.restart_at = None
                found.append(name)
        return found

    def _note_recovered(self, failed: Collection[str], now: float) -> None:
        for name in self._jobs.keys() - set(failed):
            job = self._jobs[name]
            if job.recovered_at is None:
                job.recovered_at, job.restart_at = now, None
            elif now - job.recovered_at >= self._policy.healthy_s:
                del self._jobs[name]
