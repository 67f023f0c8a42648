"""Matching the regular expressions of consumer groups with the cluster's topics, in slices.

An expression takes some microseconds for each topic: with ten thousand topics it would hold the
loop for tens of milliseconds. One task therefore matches for all groups, as long as there is
something to match, and lets other tasks run every millisecond. Matches are kept for all groups
until topics come or go.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping

import attrs

from barnabas import tasks
from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.coordinator.groups.consumer.regex_subscriptions import Matching

Answer = Callable[[Mapping[str, frozenset[str]], int], None]
"""Takes the matched topics by expression, and the metadata offset that they were matched at."""

_SLICE_S = 0.001
_TOPICS_AT_A_TIME = 32
# How many names are kept at most, expressions included, at some eighty bytes each.
_KEPT_NAMES_MAX = 100_000


@attrs.frozen
class Question:
    """Regular expressions to match; either `answer` or `failed` is called, once."""

    regexes: Collection[str]
    answer: Answer
    failed: Callable[[Exception], None]


class RegexResolver:
    """Takes questions by `ask` and answers them in turn while `run` runs."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._questions: deque[Question] = deque()
        self._running = False
        self._topics: Mapping[str, TopicImage] = {}
        self._known: dict[str, frozenset[str]] = {}
        self._kept_names = 0

    def ask(self, question: Question) -> bool:
        """Queue a question; return True when `run` has to be started for it."""
        self._questions.append(question)
        idle, self._running = not self._running, True
        return idle

    async def run(self) -> None:
        """Answer all questions, including those that are added meanwhile."""
        try:
            while self._questions:
                question = self._questions.popleft()
                try:
                    await self._answer(question)
                except Exception as error:
                    question.failed(error)
                await tasks.checkpoint()
        finally:
            self._running = False

    async def _answer(self, question: Question) -> None:
        image = self._image()
        self._use_topics(image.topics_by_name)
        found = {regex: await self._match(regex) for regex in question.regexes}
        question.answer(found, image.offset)

    def _use_topics(self, topics: Mapping[str, TopicImage]) -> None:
        """Match with these topics; matches of other topics are forgotten."""
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
        slice_end = tasks.current_time() + _SLICE_S
        while matching.advance(_TOPICS_AT_A_TIME):
            if tasks.current_time() >= slice_end:
                await tasks.checkpoint()
                slice_end = tasks.current_time() + _SLICE_S
        found = matching.matched
        names = 1 + len(found)
        if self._kept_names + names > _KEPT_NAMES_MAX:
            self._forget()
        self._known[regex] = found
        self._kept_names += names
        return found
