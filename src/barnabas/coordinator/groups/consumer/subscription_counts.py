"""What the members of a consumer group subscribe to, counted.

Kept up by replay one member at a time, so that a decision about one member costs no walk over the
others. Members that name the same topics, which may be thousands, share one set of names. Kafka:
ModernGroup.subscribedTopicNames and ConsumerGroup.subscribedRegularExpressions.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from barnabas.coordinator.groups.consumer.consumer_member import ConsumerMember
from barnabas.coordinator.groups.consumer.regex_subscriptions import Resolved

T = TypeVar("T")

# A member as it was and as it will be; None: it comes or goes.
Move = tuple[ConsumerMember | None, ConsumerMember | None]


class Subscriptions:
    """Counts of sets of names, of expressions, and of the topics that these stand for."""

    def __init__(self) -> None:
        # Members by the topics that they name, and by expression.
        self._names: Counter[frozenset[str]] = Counter()
        self.regexes: Counter[str] = Counter()
        self.resolved: dict[str, Resolved] = {}
        # By topic, in how many of those sets and of the resolved expressions it is.
        self._topics: Counter[str] = Counter()
        self._shared: dict[frozenset[str], frozenset[str]] = {}

    # Replay

    def shared(self, names: frozenset[str]) -> frozenset[str]:
        """These names, in the very set that other members have of them if there is one."""
        return self._shared.get(names, names)

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Counts a member's new subscription in place of its old one."""
        if (
            old is not None
            and new is not None
            and old.subscribed_names is new.subscribed_names
            and old.subscribed_regex == new.subscribed_regex
        ):
            return  # nearly always
        coming, going = _subsets([(old, new)], self._names)
        for names in coming:
            self._shared[names] = names
            _count(self._topics, names, 1)
        for names in going:
            del self._shared[names]
            _count(self._topics, names, -1)
        for member, step in ((old, -1), (new, 1)):
            if member is not None:
                _count(self._names, (member.subscribed_names,), step)
                _count(self.regexes, _regexes(member), step)

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Takes in what an expression stands for now; None: nobody asks any more."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count(self._topics, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(self._topics, resolved.topics, 1)

    # Questions

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def topics(self) -> Collection[str]:
        """All topics that some member subscribes to."""
        return self._topics.keys()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics of one member: those that it names and those that its expression matched."""
        resolved = self.resolved.get(member.subscribed_regex)
        if resolved is None:
            return member.subscribed_names
        if not member.subscribed_names:
            return resolved.topics
        return member.subscribed_names | resolved.topics

    def topics_after(self, moves: Iterable[Move]) -> Collection[str] | None:
        """All topics once some members have become others; None if they are the same as now."""
        moves = list(moves)
        coming, going = _subsets(moves, self._names)
        gone: Counter[str] = Counter()
        for old, new in moves:
            if old is not None:
                gone.update(_regexes(old))
            if new is not None:
                gone.subtract(_regexes(new))
        going += [
            self.resolved[regex].topics
            for regex, members in gone.items()
            if members > 0 and self.last_subscribed(regex, members) and regex in self.resolved
        ]
        return self._topics_with(coming, going) if coming or going else None

    def topics_with(self, resolved: Mapping[str, frozenset[str]]) -> Collection[str]:
        """All topics once these expressions stand for these topics."""
        before = [self.resolved[regex].topics for regex in resolved if regex in self.resolved]
        return self._topics_with(resolved.values(), before)

    def _topics_with(
        self, coming: Iterable[frozenset[str]], going: Iterable[frozenset[str]]
    ) -> Collection[str]:
        topics = Counter(self._topics)
        for names in coming:
            _count(topics, names, 1)
        for names in going:
            _count(topics, names, -1)
        return topics.keys()

    def last_subscribed(self, regex: str, leaving: int = 1) -> bool:
        """Whether nobody but `leaving` members subscribes to the expression."""
        return self.regexes[regex] == leaving

    @property
    def last_resolution(self) -> Resolved | None:
        """When and for which metadata expressions were last resolved, which happens together."""
        return next(iter(self.resolved.values()), None)


def _subsets(
    moves: Iterable[Move], counts: Counter[frozenset[str]]
) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """The sets of names that nobody had yet, and those that nobody has any more."""
    changes: dict[frozenset[str], int] = {}
    for old, new in moves:
        if old is not None:
            changes[old.subscribed_names] = changes.get(old.subscribed_names, 0) - 1
        if new is not None:
            changes[new.subscribed_names] = changes.get(new.subscribed_names, 0) + 1
    coming = [names for names, step in changes.items() if step > 0 and not counts[names]]
    going = [names for names, step in changes.items() if step < 0 and counts[names] == -step]
    return coming, going


def _regexes(member: ConsumerMember) -> list[str]:
    return [member.subscribed_regex] if member.subscribed_regex else []


def _count(counter: Counter[T], things: Iterable[T], step: int) -> None:
    if step > 0:
        counter.update(things)
        return
    for thing in things:
        if counter[thing] > 1:
            counter[thing] -= 1
        else:
            del counter[thing]
