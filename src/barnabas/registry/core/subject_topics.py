"""The topic that a subject belongs to, whose ACLs decide about the subject.

A subject of the strategy TopicName is `TOPIC-key` or `TOPIC-value`. Any other one belongs to the
topic that a rule names for its beginning, and without a rule to the topic that has its own name.
Contexts do not matter.
"""

from collections.abc import Mapping

from barnabas.registry.core.subject_names import GLOBAL_CONTEXT, SubjectName

_SUFFIXES = ("-key", "-value")


class SubjectTopics:
    """Finds the topic of a subject; `rules` are topics by the beginnings of subjects."""

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        given = (rules or {}).items()
        self._rules = sorted(given, key=lambda rule: len(rule[0]), reverse=True)

    @classmethod
    def parse(cls, text: str) -> "SubjectTopics":
        """Return the rules of a text `BEGINNING=TOPIC,BEGINNING=TOPIC`. Raises ValueError."""
        rules: dict[str, str] = {}
        for part in filter(None, (each.strip() for each in text.split(","))):
            beginning, equals, topic = (each.strip() for each in part.partition("="))
            if not equals or not beginning or not topic:
                raise ValueError(f"{part} is not BEGINNING=TOPIC")
            rules[beginning] = topic
        return cls(rules)

    def topic(self, subject: str) -> str:
        """Return the topic of a subject."""
        name = SubjectName.parse(subject).name
        for beginning, topic in self._rules:
            if name.startswith(beginning):
                return topic
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and name != suffix:
                return name.removesuffix(suffix)
        return name


def is_settings_place(subject: str) -> bool:
    """True for a name that stands for a whole context, or for all of them."""
    parsed = SubjectName.parse(subject)
    return not parsed.name or parsed.context == GLOBAL_CONTEXT
