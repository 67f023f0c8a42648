"""What the members of a consumer group subscribe to, counted.

Kept up by replay one member at a time, so that a decision about one member costs no walk over the
others. Kafka: ModernGroup.subscribedTopicNames and ConsumerGroup.subscribedRegularExpressions.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.regex import Resolved


class Subscriptions:
    """Counts of names, of expressions, and of the topics that expressions stand for."""

    def __init__(self) -> None:
        # Members by topic name; members by expression; expressions by topic that they matched.
        self._by_name: Counter[str] = Counter()
        self.regexes: Counter[str] = Counter()
        self._by_regex: Counter[str] = Counter()
        self.resolved: dict[str, Resolved] = {}

    # Replay

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Counts a member's new subscription in place of its old one."""
        if old is not None:
            _count(self._by_name, old.subscribed_names, -1)
            _count(self.regexes, _regexes(old), -1)
        if new is not None:
            _count(self._by_name, new.subscribed_names, 1)
            _count(self.regexes, _regexes(new), 1)

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Takes in what an expression stands for now; None: nobody asks any more."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count(self._by_regex, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(self._by_regex, resolved.topics, 1)

    # Questions

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_name or topic in self._by_regex

    def topics(self) -> Collection[str]:
        """All topics that some member subscribes to."""
        return self._by_name.keys() | self._by_regex.keys() if self._by_regex else self._by_name

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics of one member: those that it names and those that its expression matched."""
        resolved = self.resolved.get(member.subscribed_regex)
        if resolved is None:
            return member.subscribed_names
        return member.subscribed_names | resolved.topics

    def topics_after(
        self, changes: Iterable[tuple[ConsumerMember | None, ConsumerMember | None]]
    ) -> Collection[str]:
        """All topics once some members have become others (None: come or gone)."""
        names = Counter(self._by_name)
        regexes: Counter[str] = Counter()
        for old, new in changes:
            if old is not None:
                _count(names, old.subscribed_names, -1)
                _count(regexes, _regexes(old), 1)
            if new is not None:
                _count(names, new.subscribed_names, 1)
                regexes.subtract(_regexes(new))
        by_regex = self._by_regex
        dropped = [
            regex
            for regex, gone in regexes.items()
            if gone > 0 and self.regexes[regex] == gone and regex in self.resolved
        ]
        if dropped:
            by_regex = Counter(by_regex)
            for regex in dropped:
                _count(by_regex, self.resolved[regex].topics, -1)
        return names.keys() | by_regex.keys()

    def topics_with(self, resolved: dict[str, frozenset[str]]) -> Collection[str]:
        """All topics once these expressions stand for these topics."""
        by_regex = Counter(self._by_regex)
        for regex, topics in resolved.items():
            if regex in self.resolved:
                _count(by_regex, self.resolved[regex].topics, -1)
            _count(by_regex, topics, 1)
        return self._by_name.keys() | by_regex.keys()

    def last_subscribed(self, regex: str, leaving: int = 1) -> bool:
        """Whether nobody but `leaving` members subscribes to the expression."""
        return self.regexes[regex] == leaving

    @property
    def last_resolution(self) -> Resolved | None:
        """When and for which metadata expressions were last resolved, which happens together."""
        return next(iter(self.resolved.values()), None)


def _regexes(member: ConsumerMember) -> list[str]:
    return [member.subscribed_regex] if member.subscribed_regex else []


def _count(counter: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        count = counter[name] + step
        if count > 0:
            counter[name] = count
        else:
            del counter[name]
