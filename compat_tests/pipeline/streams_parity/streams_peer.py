"""Apache Kafka's Streams in one JVM, driven by lines of JSON (see StreamsPeer.java)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from compat_tests.pipeline.jvm_peer import JvmPeer

SOURCE = Path(__file__).with_name("StreamsPeer.java")


class Input(NamedTuple):
    """A record that Kafka Streams takes."""

    topic: str
    key: str | None
    value: str | None
    timestamp: int


class Output(NamedTuple):
    """A record that a topology emits; the window is start and end."""

    key: str | None
    window: tuple[int, int] | None
    value: str | None
    timestamp: int


def output(node: list[Any]) -> Output:
    key, window, value, timestamp = node
    return Output(key, None if window is None else (window[0], window[1]), value, timestamp)


class StreamsPeer(JvmPeer):
    """The JVM; it runs one call at a time."""

    def __init__(self) -> None:
        super().__init__(SOURCE, ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, topology: str, cases: Sequence[Sequence[Input]]) -> list[list[list[Output]]]:
        """Return for each case, and each of its records, the outputs of the topology."""
        found = self.ask({"topology": topology, "cases": cases})
        for case, outputs in zip(cases, found, strict=True):
            if isinstance(outputs, dict):
                raise AssertionError(f"{topology} of Kafka Streams: {outputs} for {case}")
        return [[[output(each) for each in outputs] for outputs in case] for case in found]
