"""Counts of what the members of a consumer group subscribe to.

Replay updates them one member at a time, so that a decision about one member does not walk over the
others. Members that name the same topics, which may be thousands, share one set of names. Kafka:
ModernGroup.subscribedTopicNames and ConsumerGroup.subscribedRegularExpressions.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from barnabas.coordinator.groups.consumer.consumer_member import ConsumerMember
from barnabas.coordinator.groups.consumer.regex_subscriptions import Resolved

T = TypeVar("T")

# A member before and after a change; None: it joins or leaves.
Move = tuple[ConsumerMember | None, ConsumerMember | None]


class Subscriptions:
    """Counts of sets of names, of expressions, and of the topics behind them."""

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
        """Return these names in the set object of other members, if there is one."""
        return self._shared.get(names, names)

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count a member's new subscription in place of its old one."""
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
        """Apply the topics that an expression matches; None: it has no subscriber any longer."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count(self._topics, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(self._topics, resolved.topics, 1)

    # Queries

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def topics(self) -> Collection[str]:
        """Return all topics that some member subscribes to."""
        return self._topics.keys()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics of one member: named ones and those of its expression."""
        resolved = self.resolved.get(member.subscribed_regex)
        if resolved is None:
            return member.subscribed_names
        if not member.subscribed_names:
            return resolved.topics
        return member.subscribed_names | resolved.topics

    def topics_after(self, moves: Iterable[Move]) -> Collection[str] | None:
        """Return all topics after these changes of members; None when they are the same as now."""
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
        """Return all topics once these expressions match these topics."""
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
        """True when only `leaving` members subscribe to the expression."""
        return self.regexes[regex] == leaving

    @property
    def last_resolution(self) -> Resolved | None:
        """Return the last resolution of expressions, which are all resolved together."""
        return next(iter(self.resolved.values()), None)


def _subsets(
    moves: Iterable[Move], counts: Counter[frozenset[str]]
) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """Return the sets of names that are new, and those that no member has any longer."""
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
