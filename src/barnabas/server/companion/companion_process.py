"""Companion processes beside a node: started, watched, restarted, and stopped before the node.

A companion runs at lower priority. Its log lines go where the node's go.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from barnabas.server.companion.companion_supervision import RestartPolicy
from barnabas.server.companion.supervised_process import ProcessPlan, SupervisedProcess

_NICENESS: Final = 10
_POLICY: Final = RestartPolicy()


@attrs.frozen
class CompanionPlan:
    """A companion to run: its name in log lines, and its command line for a bootstrap address.

    It is killed when it has not ended `stop_grace_s` seconds after SIGTERM (None: as the policy).
    """

    name: str
    command: Callable[[str], Sequence[str]]
    stop_grace_s: float | None = None


class Companions:
    """The companions of one node, or of the nodes of one machine."""

    def __init__(self, plans: Sequence[CompanionPlan], policy: RestartPolicy = _POLICY) -> None:
        self._plans = plans
        self._policy = policy
        self._stopping = trio.Event()
        self._stopped = trio.Event()
        if not plans:
            self._stopped.set()

    async def run(self, bootstrap: str) -> None:
        """Keep the companions running until `stop`. No failure of a companion is raised."""
        async with trio.open_nursery() as nursery:
            for plan in self._plans:
                companion = ProcessPlan(
                    kind="companion",
                    name=plan.name,
                    command=plan.command(bootstrap),
                    policy=_policy_of(plan, self._policy),
                    niceness=_NICENESS,
                )
                nursery.start_soon(SupervisedProcess(companion).run, self._stopping)
        self._stopped.set()

    async def stop(self) -> None:
        """End the companions; return when they have ended."""
        self._stopping.set()
        await self._stopped.wait()


def _policy_of(plan: CompanionPlan, policy: RestartPolicy) -> RestartPolicy:
    if plan.stop_grace_s is None:
        return policy
    return attrs.evolve(policy, stop_grace_s=plan.stop_grace_s)
