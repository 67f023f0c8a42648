"""Matching the regular expressions of consumer groups with the cluster's topics, in slices.

An expression takes some microseconds for each topic: with ten thousand topics it would hold up all
that the loop serves. So one task matches for all groups, as long as there is something to match,
and lets others go on every millisecond. What it found holds for all groups until topics come or go.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from time import perf_counter

import trio

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.coordinator.groups.consumer.regex_subscriptions import Matching

# Receives the topics by expression, and the metadata offset that was looked at.
Tell = Callable[[Mapping[str, frozenset[str]], int], None]

_SLICE_S = 0.001
_TOPICS_AT_A_TIME = 32
# How many names may be kept in all, expressions included, at some eighty bytes each.
_KEPT_NAMES_MAX = 100_000


class RegexResolver:
    """Takes questions by `ask` and answers them in turn while `run` is under way."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._questions: deque[tuple[Collection[str], Tell]] = deque()
        self._running = False
        self._topics: Mapping[str, TopicImage] = {}
        self._known: dict[str, frozenset[str]] = {}
        self._kept_names = 0

    def ask(self, regexes: Collection[str], tell: Tell) -> bool:
        """Have expressions matched and `tell` called; whether `run` has to be started for it."""
        self._questions.append((regexes, tell))
        idle, self._running = not self._running, True
        return idle

    async def run(self) -> None:
        """Answer all that was asked, and what is asked meanwhile."""
        try:
            while self._questions:
                regexes, tell = self._questions.popleft()
                image = self._image()
                self._look_at(image.topics_by_name)
                tell({regex: await self._match(regex) for regex in regexes}, image.offset)
                await trio.lowlevel.checkpoint()
        finally:
            self._running = False

    def _look_at(self, topics: Mapping[str, TopicImage]) -> None:
        """Forget what was found in other topics."""
        if self._topics is not topics:
            self._topics = topics
            self._forget()

    def _forget(self) -> None:
        self._known.clear()
        self._kept_names = 0

    async def _match(self, regex: str) -> frozenset[str]:
        found = self._known.get(regex)
        if found is not None:
            return found
        matching = Matching(regex, self._topics)
        slice_end = perf_counter() + _SLICE_S
        while matching.advance(_TOPICS_AT_A_TIME):
            if perf_counter() >= slice_end:
                await trio.lowlevel.checkpoint()
                slice_end = perf_counter() + _SLICE_S
        found = matching.matched
        names = 1 + len(found)
        if self._kept_names + names > _KEPT_NAMES_MAX:
            self._forget()
        self._known[regex] = found
        self._kept_names += names
        return found
