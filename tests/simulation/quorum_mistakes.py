"""Planted mistakes of the server's quorum: what it writes, and in which order."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from barnabas import tasks
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import FetchRequest
from barnabas.server.quorum import quorum_loading
from barnabas.server.quorum.raft_shell import RaftShell
from tests.simulation.planting import replaces

_WRITE_DELAY_S = 2.0


@replaces(RaftShell, "_flush")
async def count_as_synced_before_the_fsync(_: Any, shell: Any) -> None:
    """The log counts as durable when it is written."""
    shell._flushed_offset = shell._appended_offset
    shell._core.on_flushed(shell._appended_offset)
    await shell._settle()


@replaces(quorum_loading, "read_quorum_state")
def forget_the_vote_at_a_restart(original: Any, *args: Any) -> QuorumState:
    """A restarted voter does not know whom it has voted for."""
    return attrs.evolve(original(*args), voted=None)


@replaces(RaftShell, "_write_state")
async def write_the_vote_after_its_answer(
    write: Callable[..., Awaitable[None]], shell: RaftShell, state: QuorumState
) -> None:
    """2: the state file is written later than the messages that depend on it are sent."""

    async def write_late() -> None:
        await tasks.sleep(_WRITE_DELAY_S)
        await write(shell, state)

    tasks.spawn_system_task(write_late)


@replaces(RaftCore, "_note_progress")
def count_replaced_disks(note: Any, core: RaftCore, request: FetchRequest, now_ms: int) -> None:
    """The fetches of an empty disk count for the voter whose disk it replaces."""
    voter = core.voters.voters.get(request.replica.id)
    if voter is not None:
        request = attrs.evolve(request, replica=voter.key)
    note(core, request, now_ms)
