"""Faults of a simulation: drawn from the seed before it begins, so that a run can be shrunk.

Each seed uses about half of the kinds (swarm testing): some mistakes show only when the other
faults are absent.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

import attrs


class FaultKind(Enum):
    """The kinds of faults."""

    KILL = "kill"
    POWER_LOSS = "power loss"
    POWER_LOSS_OF_ALL = "power loss of all"
    CRASH_BETWEEN_EFFECTS = "crash between effects"
    PAUSE = "pause"
    CUT_NODE = "cut a node"
    CUT_HALF = "cut into two parts"
    CUT_ONE_WAY = "cut one way"
    CUT_PAIR = "cut a pair"
    RESETS = "resets"
    DELAYS = "delays"
    SLOW_DISK = "slow disk"
    CLOCK = "clock rate"
    RESIGN = "the quorum's leader resigns"
    CUT_LEADER = "cut the quorum's leader"
    LEADER_LOSES_POWER = "the quorum's leader, on a slow disk, loses power"
    SHUTDOWN = "controlled shutdown"
    DIRECTORY_FAILS = "a log directory fails"
    DISK_REPLACED = "a disk is replaced by an empty one"


_PER_MINUTE: Final = {
    FaultKind.KILL: 4.0,
    FaultKind.POWER_LOSS: 2.0,
    FaultKind.POWER_LOSS_OF_ALL: 0.4,
    FaultKind.CRASH_BETWEEN_EFFECTS: 4.0,
    FaultKind.PAUSE: 3.0,
    FaultKind.CUT_NODE: 3.0,
    FaultKind.CUT_HALF: 1.5,
    FaultKind.CUT_ONE_WAY: 2.0,
    FaultKind.CUT_PAIR: 2.0,
    FaultKind.RESETS: 2.0,
    FaultKind.DELAYS: 2.0,
    FaultKind.SLOW_DISK: 2.0,
    FaultKind.CLOCK: 1.0,
    FaultKind.RESIGN: 2.0,
    FaultKind.CUT_LEADER: 3.0,
    FaultKind.LEADER_LOSES_POWER: 3.0,
    FaultKind.SHUTDOWN: 4.0,
    FaultKind.DIRECTORY_FAILS: 4.0,
    FaultKind.DISK_REPLACED: 0.5,
}
"""The highest rates of the kinds, per simulated minute, in a seed of ordinary intensity."""

DISK_FAULTS: Final = (FaultKind.DIRECTORY_FAILS, FaultKind.DISK_REPLACED)

_STREAMED: Final = (FaultKind.SHUTDOWN, *DISK_FAULTS)
"""Kinds with a separate random stream each, so that the seeds of the others keep their faults."""

_INTENSITIES: Final = (1.0, 3.0, 10.0)
_LONGEST_MS: Final = (1_500, 6_000, 30_000)


@attrs.frozen(slots=True)
class Fault:
    """One fault: its time in ms, the nodes that it concerns, and how long it lasts in ms.

    `amount` is between 0 and 1; its meaning depends on the kind.
    """

    at_ms: int
    kind: FaultKind
    nodes: tuple[int, ...]
    for_ms: int
    amount: float

    def __str__(self) -> str:
        return f"{self.at_ms} ms: {self.kind.value} {list(self.nodes)} for {self.for_ms} ms"


def draw_faults(
    seed: int, nodes: Sequence[int], for_ms: int, without: Collection[FaultKind] = ()
) -> list[Fault]:
    """Return the faults of a seed, in the order of their times, `without` some streamed kinds."""
    chance = random.Random(f"faults {seed}")
    first = [kind for kind in FaultKind if kind not in _STREAMED]
    kinds = [kind for kind in first if chance.random() < 0.5] or [FaultKind.KILL]
    intensity, longest_ms = chance.choice(_INTENSITIES), chance.choice(_LONGEST_MS)
    faults: list[Fault] = []
    for kind in kinds:
        faults += _draw_kind(chance, kind, nodes, for_ms, intensity, longest_ms)
    for kind in (each for each in _STREAMED if each not in without):
        stream = random.Random(f"faults {kind.name} {seed}")
        if stream.random() < 0.5:
            faults += _draw_kind(stream, kind, nodes, for_ms, intensity, longest_ms)
    return sorted(faults, key=lambda fault: fault.at_ms)


def _draw_kind(
    chance: random.Random,
    kind: FaultKind,
    nodes: Sequence[int],
    for_ms: int,
    intensity: float,
    longest_ms: int,
) -> Iterator[Fault]:
    rate = _PER_MINUTE[kind] * intensity * chance.random()
    at_ms = chance.expovariate(1) * 60_000 / max(rate, 0.01)
    while at_ms < for_ms:
        yield _draw(chance, kind, nodes, int(at_ms), longest_ms)
        at_ms += chance.expovariate(1) * 60_000 / max(rate, 0.01)


def _draw(
    chance: random.Random, kind: FaultKind, nodes: Sequence[int], at_ms: int, longest_ms: int
) -> Fault:
    for_ms = chance.randrange(100, longest_ms)
    match kind:
        case FaultKind.POWER_LOSS_OF_ALL | FaultKind.DELAYS | FaultKind.RESETS:
            chosen = tuple(nodes)
        case FaultKind.RESIGN | FaultKind.CUT_LEADER | FaultKind.LEADER_LOSES_POWER:
            chosen = ()  # the leader at that time
        case FaultKind.CUT_HALF:
            chosen = tuple(chance.sample(nodes, k=max(1, len(nodes) // 2)))
        case FaultKind.CUT_ONE_WAY | FaultKind.CUT_PAIR:
            chosen = tuple(chance.sample(nodes, k=min(2, len(nodes))))
        case _:
            chosen = (chance.choice(nodes),)
    return Fault(at_ms, kind, chosen, for_ms, chance.random())


def shrink(faults: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool]) -> list[Fault]:
    """Return a part of the faults with which the run still fails, where no single one can go.

    Removes ever smaller runs of faults (ddmin).
    """
    kept, size = list(faults), max(1, len(faults) // 2)
    while size:
        start, removed = 0, False
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if fails(shorter):
                kept, removed = shorter, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = size if size == 1 else size // 2
    return kept


def describe(faults: Iterable[Fault]) -> str:
    """Return one line for each fault."""
    return "\n".join(f"  {fault}" for fault in faults)
