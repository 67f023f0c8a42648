"""Matching expressions with many topics does not hold the loop."""

from collections.abc import Collection, Mapping
from time import thread_time

import trio

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.protocol.types import ZERO_UUID
from barnabas.server.coordinators.regex_resolver import Question, RegexResolver


def cluster(topics: int, offset: int = 5) -> MetadataImage:
    named = [TopicImage(f"topic-{number}", ZERO_UUID, {}) for number in range(topics)]
    return MetadataImage(offset=offset, topics_by_name={topic.name: topic for topic in named})


class World:
    """A resolver, the cluster it sees, and its answers."""

    def __init__(self, topics: int) -> None:
        self.image = cluster(topics)
        self.told: list[tuple[dict[str, int], int]] = []
        self.errors: list[Exception] = []
        self.resolver = RegexResolver(lambda: self.image)

    def ask(self, *regexes: str) -> bool:
        def answer(found: Mapping[str, Collection[str]], version: int) -> None:
            self.told.append(({regex: len(topics) for regex, topics in found.items()}, version))

        return self.resolver.ask(Question(regexes, answer, self.errors.append))


def test_regex_resolver_answers_in_order_with_one_task() -> None:
    world = World(20)
    assert world.ask("topic-1.*", "none")
    assert not world.ask(".*")
    trio.run(world.resolver.run)
    assert world.told == [({"topic-1.*": 11, "none": 0}, 5), ({".*": 20}, 5)]
    assert world.ask(".*")


def test_regex_resolver_many_topics_let_other_tasks_run() -> None:
    world = World(20_000)
    for number in range(10):
        world.ask(f".*{number}.*(a|b|7)$")
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        turns: list[float] = []
        while len(world.told) < 10:
            started = thread_time()
            await trio.lowlevel.checkpoint()
            turns.append(thread_time() - started)
        longest_s = sorted(turns)[len(turns) // 2]

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.resolver.run)
            nursery.start_soon(watch)

    trio.run(main)
    # The processor time of the median turn: what else the machine does is not counted.
    assert longest_s < 0.01


def test_regex_resolver_matches_once_until_topics_change() -> None:
    world = World(10)
    world.ask("topic-.*")
    trio.run(world.resolver.run)
    before = world.resolver._known["topic-.*"]
    world.ask("topic-.*")
    trio.run(world.resolver.run)
    assert world.resolver._known["topic-.*"] is before
    world.image = cluster(11, offset=9)
    world.ask("topic-.*")
    trio.run(world.resolver.run)
    assert world.told[1:] == [({"topic-.*": 10}, 5), ({"topic-.*": 11}, 9)]


def test_regex_resolver_kept_names_are_bounded() -> None:
    world = World(30_000)
    world.ask(*(f"(topic|{number}).*" for number in range(5)))
    trio.run(world.resolver.run)
    assert set(world.told[0][0].values()) == {30_000}
    assert len(world.resolver._known) < 4


def test_regex_resolver_kept_empty_matches_are_bounded() -> None:
    world = World(1)
    world.resolver._known = {f"nothing-{number}": frozenset() for number in range(3)}
    world.resolver._topics = world.image.topics_by_name
    world.resolver._kept_names = 99_999
    world.ask("a", "b")
    trio.run(world.resolver.run)
    assert world.resolver._known.keys() == {"b"}


def test_regex_resolver_failing_question_leaves_the_others() -> None:
    world, error = World(1), ValueError()

    def fail(_found: Mapping[str, Collection[str]], _version: int) -> None:
        raise error

    world.resolver.ask(Question(["a"], fail, world.errors.append))
    world.ask(".*")
    trio.run(world.resolver.run)
    assert (world.errors, world.told) == ([error], [({".*": 1}, 5)])
