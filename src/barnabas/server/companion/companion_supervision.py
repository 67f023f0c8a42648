"""When to start, restart and stop one companion process: a state machine without processes.

    IDLE -> RUNNING -> WAITING (backoff) -> RUNNING
                    -> GIVEN_UP (it cannot run with its configuration)
    any -> STOPPING -> STOPPED

Methods take an event and the time in seconds, and return the actions to carry out in order.
"""

from enum import Enum
from typing import Final

import attrs

UNUSABLE_STATUS: Final = 2
"""The exit code of a command that cannot run with its options or installed packages."""

_REPEATS_LOGGED: Final = 5


class Action(Enum):
    """An action on the process."""

    SPAWN = "spawn"
    TERMINATE = "terminate"
    KILL = "kill"


@attrs.frozen
class Report:
    """A line for the log."""

    is_error: bool
    text: str


Effect = Action | Report


class State(Enum):
    """The state of a companion."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    GIVEN_UP = "given up"
    STOPPING = "stopping"
    STOPPED = "stopped"


@attrs.frozen
class RestartPolicy:
    """Delays in seconds. A companion that ran for `healthy_s` starts again with the first delay."""

    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    healthy_s: float = 30.0
    stop_grace_s: float = 5.0


class CompanionSupervision:
    """The supervision of one companion."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.state = State.IDLE
        self.wake_at = float("inf")
        """When `wake` must be called."""
        self.failures = 0
        """How often it failed in a row."""
        self._policy = policy
        self._started_at = 0.0

    @property
    def is_over(self) -> bool:
        """True when no process runs and none will."""
        return self.state in (State.GIVEN_UP, State.STOPPED)

    def start(self, now: float) -> list[Effect]:
        """Start the companion for the first time."""
        return self._spawn(now)

    def wake(self, now: float) -> list[Effect]:
        """Act on the time: start again after the delay, or kill after the grace of a stop."""
        if now < self.wake_at:
            return []
        self.wake_at = float("inf")
        if self.state is State.WAITING:
            return self._spawn(now)
        if self.state is State.STOPPING:
            return [Report(True, "did not stop in time, killing it"), Action.KILL]
        return []

    def spawn_failed(self, reason: str, now: float) -> list[Effect]:
        """Take in that the process could not be started."""
        if self.state is State.STOPPING:
            return self._stopped()
        return self._failed(f"cannot start: {reason}", now)

    def exited(self, status: int, now: float) -> list[Effect]:
        """Take in that the process ended; a negative status is the number of a signal."""
        if self.state is State.STOPPING:
            return self._stopped()
        if status == UNUSABLE_STATUS:
            self.state = State.GIVEN_UP
            return [Report(True, "cannot run with its configuration, not restarting it")]
        if now - self._started_at >= self._policy.healthy_s:
            self.failures = 0
        ending = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
        return self._failed(ending, now)

    def stop(self, now: float) -> list[Effect]:
        """Stop the companion for good."""
        if self.state is State.RUNNING:
            self.state = State.STOPPING
            self.wake_at = now + self._policy.stop_grace_s
            return [Action.TERMINATE]
        if self.state is not State.STOPPING:
            return self._stopped()
        return []

    def _spawn(self, now: float) -> list[Effect]:
        self.state = State.RUNNING
        self._started_at = now
        return [Action.SPAWN]

    def _failed(self, text: str, now: float) -> list[Effect]:
        policy = self._policy
        self.failures += 1
        exponent = min(self.failures - 1, 30)
        delay_s = min(policy.first_delay_s * (1 << exponent), policy.longest_delay_s)
        self.state = State.WAITING
        self.wake_at = now + delay_s
        line = f"{text}, restarting delay_s={delay_s:g} failures={self.failures}"
        is_logged = self.failures <= _REPEATS_LOGGED or self.failures % _REPEATS_LOGGED == 0
        return [Report(True, line)] if is_logged else []

    def _stopped(self) -> list[Effect]:
        self.state = State.STOPPED
        self.wake_at = float("inf")
        return []
