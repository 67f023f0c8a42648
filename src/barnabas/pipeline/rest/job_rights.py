"""The rights of the users of Connect's REST API.

Users are full or read-only. With authorization, a request that changes a job, and one that reads
the rows of a view, needs the caller's own rights on the topics that the job's configuration names:
READ on what it reads, WRITE on what it writes; and READ on a consumer group that it names. A job
whose topics the configuration does not name (a pattern, a transformation that renames topics, a
source with its own topics) needs the right on the topic name `*`, which only ACLs of all topics
give.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

import attrs

from barnabas.pipeline.connect.plugin_registry import Plugin
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.jobs.job_config import job_kind

ANY_TOPIC: Final = "*"
_FORBIDDEN: Final = 403
_READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_READ_LIST: Final = "topics"
_READ_PATTERN: Final = "topics.regex"
_TOPIC: Final = "topic"
_PREFIX: Final = "topic.prefix"
_TARGET: Final = "target.topic"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_SOURCE_OFFSETS: Final = "offsets.storage.topic"
_GROUP: Final = "consumer.override.group.id"
_TRANSFORMS: Final = "transforms"
_COPIES: Final = (JobKind.COPY, JobKind.MIRROR, JobKind.QUERY)
"""The jobs that read topics and write topics."""
_KEEPS_TOPIC: Final = re.compile(r"org\.apache\.kafka\.connect\.transforms\.(?!\w*Router)")
_REFERENCE: Final = "${"
_OWN_PLUGINS: Final = "barnabas."


class TopicRights(Protocol):
    """The rights of one caller."""

    def may_read(self, topic: str) -> bool:
        """Return True when the caller may read the topic."""
        ...

    def may_write(self, topic: str) -> bool:
        """Return True when the caller may write to the topic."""
        ...

    def may_join(self, group: str) -> bool:
        """Return True when the caller may commit offsets of the group."""
        ...


class TopicAuthorizing(Protocol):
    """Finds the rights of callers."""

    async def load(self) -> None:
        """Prepare. Raises ConfigError when no rights can be found."""
        ...

    async def rights(self, name: str, host: str) -> TopicRights:
        """Return the rights of a user at an address."""
        ...


@attrs.frozen
class CallerRights:
    """The rights of the sender of one request."""

    name: str
    topics: TopicRights | None = None
    """None: every topic."""

    def check_job(self, config: Mapping[str, str | None], plugin: Plugin | None) -> None:
        """Raise ConnectRestError (403) unless the caller has the rights on a job's topics."""
        if self.topics is None:
            return
        for topic in read_topics(config):
            if not self.topics.may_read(topic):
                raise self._refusal("READ", topic)
        for topic in written_topics(config, plugin):
            if not self.topics.may_write(topic):
                raise self._refusal("WRITE", topic)
        group = config.get(_GROUP)
        if group and not self.topics.may_join(_name(group)):
            raise ConnectRestError(
                _FORBIDDEN, f"User {self.name} needs READ on the group {_name(group)} of the job"
            )

    def check_rows(self, config: Mapping[str, str | None]) -> None:
        """Raise ConnectRestError (403) unless the caller may read a job's topics."""
        if self.topics is None:
            return
        for topic in read_topics(config):
            if not self.topics.may_read(topic):
                raise self._refusal("READ", topic)

    def _refusal(self, operation: str, topic: str) -> ConnectRestError:
        return ConnectRestError(
            _FORBIDDEN, f"User {self.name} needs {operation} on the topic {topic} of the job"
        )


UNLIMITED: Final = CallerRights("ANONYMOUS")


@attrs.frozen
class RestAccess:
    """The rules of one runner."""

    full_users: Collection[str] | None = None
    """The users that may change something; None: all."""
    authorizer: TopicAuthorizing | None = None

    async def rights(self, name: str, host: str, method: str) -> CallerRights:
        """Return the rights of a caller.

        Raises ConnectRestError (403) for a change by a read-only user.
        """
        is_full = self.full_users is None or name in self.full_users
        if not is_full and method not in _READ_METHODS:
            raise ConnectRestError(_FORBIDDEN, f"User {name} is a read-only user")
        if self.authorizer is None:
            return CallerRights(name)
        return CallerRights(name, await self.authorizer.rights(name, host))


def read_topics(config: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the topics that a job reads."""
    for topic in (config.get(_READ_LIST) or "").split(","):
        if topic.strip():
            yield _name(topic)
    if config.get(_READ_PATTERN):
        yield ANY_TOPIC
    if config.get(_SOURCE_OFFSETS):
        yield _name(config[_SOURCE_OFFSETS] or "")


def written_topics(config: Mapping[str, str | None], plugin: Plugin | None) -> Iterator[str]:
    """Yield the topics that a job writes; `PREFIX*` is every topic with the prefix."""
    for key in (_DEAD_LETTERS, _SOURCE_OFFSETS):
        if config.get(key):
            yield _name(config[key] or "")
    kind = None if plugin is None else job_kind(plugin)
    if kind is not None and not kind.is_source and kind not in _COPIES:
        return
    named = [_name(config[key] or "") for key in (_TOPIC, _TARGET) if config.get(key)]
    if config.get(_PREFIX):
        named.append(f"{_name(config[_PREFIX] or '').removesuffix(ANY_TOPIC)}{ANY_TOPIC}")
    yield from named
    # Other plug-ins may take topics from other properties.
    is_known = plugin is not None and plugin.target.startswith(_OWN_PLUGINS)
    if not named or not is_known or not all(map(_KEEPS_TOPIC.match, _transformations(config))):
        yield ANY_TOPIC


def _transformations(config: Mapping[str, str | None]) -> Iterator[str]:
    for alias in (config.get(_TRANSFORMS) or "").split(","):
        if alias.strip():
            yield config.get(f"{_TRANSFORMS}.{alias.strip()}.type") or ""


def _name(text: str) -> str:
    """Return a name; a reference to a provider may stand for every name."""
    return ANY_TOPIC if _REFERENCE in text else text.strip()
