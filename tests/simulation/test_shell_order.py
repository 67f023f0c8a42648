"""The simulated shell of the quorum carries out effects in the order of the real one.

A vote that is answered before it is written, or an operation that is answered before its records
are published, is a mistake of the shell, which no test of the cores can see. So both shells carry
out the same effects here, and the order is compared; each planted mistake of the real shell's order
must be seen.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from barnabas.clock import Clock
from barnabas.cluster.controller.controller_state_machine import (
    CommittedBatch,
    Completion,
    Effects,
)
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft_messages import BeginQuorumEpoch
from barnabas.cluster.quorum.raft_state import Entry, Ready
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.quorum.quorum import Quorum
from barnabas.server.quorum.raft_shell import RaftShell
from barnabas.testing.simulation.quorum_replica import QuorumReplica

ORDER = ["state", "truncate", "append", "send", "high watermark", "snapshot", "publish", "answer"]
Order = list[str]


def effects() -> Effects:
    """Return one effect of each kind."""
    image = MetadataImage()
    ready = Ready(
        quorum_state=QuorumState(epoch=2),
        truncate_to=4,
        entries=[Entry(4, 2, 0, (b"record",))],
        messages=[BeginQuorumEpoch(2, 2, 1)],
        high_watermark=5,
        fetch_snapshot=OffsetAndEpoch(9, 2),
    )
    committed = CommittedBatch(image, MetadataDelta(image), 0)
    refusal = KafkaError(ErrorCode.NOT_CONTROLLER, "")
    return Effects(ready, [committed], [Completion(object(), refusal)])


def noting(order: Order, name: str) -> Callable[..., None]:
    def note(*_: object, **__: object) -> None:
        order.append(name)

    return note


def real_order() -> Order:
    """Return the order in which the server's shell carries the effects out."""
    order: Order = []

    async def write_state(*_: object) -> None:
        order.append("state")
        await trio.lowlevel.checkpoint()

    core = SimpleNamespace(
        log_end_offset=4,
        role=None,
        leader_id=None,
        epoch=2,
        voters=VoterSet.of(),
        kraft_version=1,
    )
    quorum: Any = object.__new__(Quorum)
    quorum.core, quorum.clock = core, Clock(lambda: 0, lambda: 0)
    quorum.election_times = SimpleNamespace(follow=lambda *_: None)
    quorum.publisher = SimpleNamespace(publish=noting(order, "publish"))
    quorum._is_published, quorum._applied_offset = True, lambda: -1
    quorum._host = SimpleNamespace(complete=noting(order, "answer"))
    log = SimpleNamespace(
        directory=Path(),
        truncate_to=noting(order, "truncate"),
        append=noting(order, "append"),
        advance_high_watermark=noting(order, "high watermark"),
    )
    peers = SimpleNamespace(send=noting(order, "send"), fetch_snapshot=noting(order, "snapshot"))
    machine = SimpleNamespace(core=core, loaded_end_offset=0)
    parts: Any = (machine, log, SimpleNamespace(appended=lambda _: None))
    disk: Any = SimpleNamespace(run=write_state)

    async def carry_out() -> None:
        shell = RaftShell(
            *parts, disk, clock=Clock(lambda: 0, lambda: 0), deliver=quorum._deliver, peers=peers
        )
        await shell._carry_out(effects())

    trio.run(carry_out)
    return order


class _Disk:
    """The disk of a simulated replica, which notes what is written."""

    def __init__(self, order: Order) -> None:
        object.__setattr__(self, "order", order)
        self.entries = SimpleNamespace(append=noting(order, "append"))
        self.truncate = noting(order, "truncate")

    def __setattr__(self, name: str, value: object) -> None:
        if name == "state":
            self.order.append("state")
        object.__setattr__(self, name, value)

    state = QuorumState()


def simulated_order() -> Order:
    """Return the order in which the simulation's shell carries the effects out."""
    order: Order = []
    replica: Any = object.__new__(QuorumReplica)
    replica.disk = _Disk(order)
    order.clear()
    replica.process = SimpleNamespace(effect=lambda: None)
    replica.machine = SimpleNamespace(loaded_end_offset=0)
    replica.core = SimpleNamespace(is_leader=False)
    replica.observer = SimpleNamespace(
        state_written=lambda *_: None,
        truncated=lambda *_: None,
        published=lambda *_: None,
        high_watermark_raised=noting(order, "high watermark"),
    )
    replica._entries = 0
    replica._send = noting(order, "send")
    replica._downloads = SimpleNamespace(begin=noting(order, "snapshot"))
    replica.publish = noting(order, "publish")
    replica._voter_operations = SimpleNamespace(settled=lambda: None)
    replica._fetches = SimpleNamespace(look_again=lambda: None)
    given = effects()
    answer = noting(order, "answer")
    given.completions = [attrs.evolve(each, token=answer) for each in given.completions]
    replica._carry_out(given)
    return order


def test_simulated_shell_has_the_order_of_the_real_one() -> None:
    assert real_order() == simulated_order() == ORDER


async def send_before_the_state(original: Any, shell: Any, given: Effects) -> None:
    messages, given.ready.messages = given.ready.messages, []
    for message in messages:
        shell._peers.send(message)
    await original(shell, given)


async def write_the_state_last(original: Any, shell: Any, given: Effects) -> None:
    state, given.ready.quorum_state = given.ready.quorum_state, None
    await original(shell, given)
    await shell._write_state(state)


async def append_before_truncating(original: Any, shell: Any, given: Effects) -> None:
    offset, given.ready.truncate_to = given.ready.truncate_to, None
    await original(shell, given)
    shell._log.truncate_to(offset)


@pytest.mark.parametrize(
    "mistaken", [send_before_the_state, write_the_state_last, append_before_truncating]
)
def test_mistake_in_the_order_of_the_real_shell_is_seen(
    mistaken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RaftShell._carry_out

    async def carry_out(shell: RaftShell, given: Effects) -> None:
        await mistaken(original, shell, given)

    monkeypatch.setattr(RaftShell, "_carry_out", carry_out)
    assert real_order() != ORDER


def test_answers_before_publishing_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Quorum._deliver

    def mistaken(quorum: Any, given: Effects) -> None:
        quorum._host.complete(given.completions)
        quorum._host = SimpleNamespace(complete=lambda _: None)
        deliver(quorum, given)

    monkeypatch.setattr(Quorum, "_deliver", mistaken)
    assert real_order() != ORDER
