"""The fuzzing loop: damages known inputs, runs the targets, and checks the outcome.

A seed repeats a run. An input is a finding when its target raises an undeclared exception, exceeds
the time limit twice, or needs more memory than the process limit that `__main__` sets.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz.targets import REFUSALS, TARGETS, sample
from tests.protocol.generator import damaged

CORPUS = Path(__file__).parent / "corpus"
SECONDS_MAX = 0.5
INPUT_MAX = 4096
KEPT_SIZE_MAX = 400
KEPT_PER_TARGET = 60


class Finding(Exception):  # noqa: N818  (what a fuzzer calls it)
    """An input that breaks a target's promise."""

    def __init__(self, target: str, data: bytes, why: str) -> None:
        super().__init__(f"{target}: {why}\n{data.hex()}")
        self.target = target
        self.data = data


def run(target: str, data: bytes) -> str:
    """Run one input; return its outcome.

    Raises Finding.
    """
    began = time.perf_counter()
    try:
        told = TARGETS[target](data)
    except REFUSALS[target] as error:
        told = str(error)
    except Exception as error:
        raise Finding(target, data, f"{type(error).__name__}: {error}") from error
    if time.perf_counter() - began > SECONDS_MAX:
        _again(target, data)
    return told


def _again(target: str, data: bytes) -> None:
    """True when the input is slow in a second run too, not only because the machine was busy."""
    began = time.process_time()
    try:
        TARGETS[target](data)
    except REFUSALS[target]:
        pass
    took = time.process_time() - began
    if took > SECONDS_MAX:
        raise Finding(target, data, f"took {took:.1f} s of CPU time")


class Corpus:
    """Inputs of each target with a new outcome, from the repository and from this run."""

    def __init__(self) -> None:
        self.inputs = {target: list(stored(target)) for target in TARGETS}
        self._seen: dict[str, set[str]] = {target: set() for target in TARGETS}
        for target, inputs in self.inputs.items():
            for data in inputs:
                self.note(target, data, run(target, data), keep=False)

    def note(self, target: str, data: bytes, told: str, *, keep: bool = True) -> None:
        """Keep an input with a new outcome; numbers in the outcome do not count."""
        outcome = re.sub(r"0x\w+|\d+", "N", told)
        if outcome in self._seen[target]:
            return
        self._seen[target].add(outcome)
        if keep and len(data) <= INPUT_MAX:
            self.inputs[target].append(data)

    def write(self) -> None:
        """Store the first inputs of each target, and short ones."""
        for target, inputs in self.inputs.items():
            short = [data for data in inputs if len(data) <= KEPT_SIZE_MAX][:KEPT_PER_TARGET]
            lines = "".join(f"{data.hex()}\n" for data in short)
            (CORPUS / f"{target}.txt").write_text(lines)


def stored(target: str) -> Iterator[bytes]:
    """Return the repository's inputs of a target: one per line, in hex."""
    path = CORPUS / f"{target}.txt"
    if path.exists():
        yield from map(bytes.fromhex, path.read_text().split())


def fuzz(
    chance: Random,
    targets: list[str],
    corpus: Corpus,
    *,
    seconds: float | None = None,
    executions: int | None = None,
) -> int:
    """Run damaged inputs for the given time or count; return the count.

    Raises Finding.
    """
    deadline = time.monotonic() + seconds if seconds is not None else float("inf")
    done = 0
    while time.monotonic() < deadline:
        target = chance.choice(targets)
        kept = corpus.inputs[target]
        fresh = not kept or chance.random() < 0.5
        base = sample(chance, target) if fresh else chance.choice(kept)
        for _ in range(20):
            data = damaged(chance, base)[:INPUT_MAX]
            corpus.note(target, data, run(target, data))
            done += 1
            if executions is not None and done >= executions:
                return done
    return done
