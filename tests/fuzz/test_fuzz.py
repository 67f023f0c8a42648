"""The fuzzer's corpus passes, a short run has no finding, and a planted fault is found."""

import time
from random import Random

import pytest

from barnabas.protocol.errors import ProtocolError
from tests.fuzz import fuzzer, targets
from tests.fuzz.fuzzer import Corpus, Finding, fuzz, run, stored


@pytest.mark.parametrize("target", targets.TARGETS)
def test_corpus_has_no_finding(target: str) -> None:
    inputs = list(stored(target))
    assert inputs, f"the corpus of {target} is empty"
    for data in inputs:
        run(target, data)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_short_run_has_no_finding(target: str) -> None:
    assert fuzz(Random(11), [target], Corpus(), executions=2000) == 2000


@pytest.mark.parametrize("target", targets.TARGETS)
def test_valid_input_is_accepted(target: str) -> None:
    chance = Random(5)
    for _ in range(30):
        targets.TARGETS[target](targets.sample(chance, target))


def test_undeclared_exception_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(data: bytes) -> str:
        if len(data) % 7 == 3:
            raise IndexError("off by one")
        raise ProtocolError("refused")

    monkeypatch.setitem(targets.TARGETS, "request", faulty)
    with pytest.raises(Finding, match="off by one"):
        fuzz(Random(1), ["request"], Corpus(), executions=1000)


def test_slow_input_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(data: bytes) -> str:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return "done"

    monkeypatch.setattr(fuzzer, "SECONDS_MAX", 0.01)
    monkeypatch.setitem(targets.TARGETS, "lz4", slow)
    with pytest.raises(Finding, match="CPU time"):
        run("lz4", b"")
