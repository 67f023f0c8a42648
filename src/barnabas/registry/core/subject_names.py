"""Names of subjects and contexts: ``:.context:subject``, bare in the default context."""

import re

import attrs

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
WILDCARD_PREFIX = ":*:"

_PREFIX = ":."
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = ("__GLOBAL", "__EMPTY")


@attrs.frozen(order=True)
class SubjectName:
    """A subject in its context. ``str()`` gives the text that clients and records use."""

    context: str
    name: str

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "SubjectName":
        """Return the parts of a qualified or bare name."""
        if not text.startswith(_PREFIX):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    @property
    def is_context(self) -> bool:
        """True for ``:.context:``: the name of a context where a subject's is expected."""
        return not self.name and self.context != DEFAULT_CONTEXT


def normalize_subject(text: str) -> str:
    """Return the name as it is stored: ``:.:name`` is the same subject as ``name``."""
    return str(SubjectName.parse(text)) if text.startswith(_PREFIX) else text


def context_of(text: str) -> str:
    """Return the context of a subject's name."""
    return SubjectName.parse(text).context


def context_subject(context: str) -> str:
    """Return the name under which a context's own config and mode are kept."""
    return f":{context}:"


def qualified_in(context: str, subject: str) -> str:
    """Return a bare name as a name in a context; a qualified one stays as it is."""
    if subject.startswith(_PREFIX):
        return normalize_subject(subject)
    return str(SubjectName(context, subject))


def normalize_context(text: str) -> str:
    """Return a context's name with its leading dot; ``:.ctx:`` is accepted too."""
    bare = text.strip(":")
    return bare if bare.startswith(".") else f".{bare}"


def has_control_characters(text: str) -> bool:
    """True when a name has characters that no name may have."""
    return _CONTROL_CHARACTER.search(text) is not None


def is_valid_subject(text: str, *, for_settings: bool = False) -> bool:
    """True when a subject may have this name.

    Config and mode may also be set ``for_settings`` of a context, and of all contexts.
    """
    if has_control_characters(text):
        return False
    subject = SubjectName.parse(text)
    if for_settings:
        return subject.name not in _RESERVED and (bool(subject.name) or subject.is_context)
    return (
        bool(subject.name)
        and subject.name not in _RESERVED
        and subject.context != GLOBAL_CONTEXT
        and subject.context.startswith(".")
    )


def matches_prefix(subject: str, prefix: str) -> bool:
    """True when a subject is listed under a prefix.

    ``:*:`` stands for every context; a bare prefix looks in the default context only, and an
    empty one everywhere.
    """
    if not prefix:
        return True
    if prefix.startswith(WILDCARD_PREFIX):
        return SubjectName.parse(subject).name.startswith(prefix[len(WILDCARD_PREFIX) :])
    wanted, found = SubjectName.parse(prefix), SubjectName.parse(subject)
    return wanted.context == found.context and found.name.startswith(wanted.name)
