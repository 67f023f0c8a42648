"""Committed offsets of consumer groups.

The requests go through barnabas's own client. librdkafka's admin client aborts the process when a
request to a group's coordinator times out and the broker comes back later.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from barnabas.client import ClientError, KafkaClient
from barnabas.client.failures import raise_for
from barnabas.client.kafka_client import COORDINATOR_ERRORS
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages_base import Message

_TIMEOUT_S: Final = 30.0
_REQUEST_TIMEOUT_S: Final = 10.0
_LANE: Final = "offsets"
_FETCH_OF_ONE_GROUP: Final = 7
_COMMIT_BY_NAME: Final = 9

R = TypeVar("R", bound=Message)
T = TypeVar("T")
Partition = tuple[str, int]


class GroupEntry(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """The leader epoch of the last record before the offset; -1 when that is unknown."""

    @classmethod
    def of(cls, found: OffsetFetchResponse.OffsetFetchResponsePartition) -> "GroupEntry":
        """Return the entry of one partition in a response; offset -1 when there is none."""
        return cls(found.committed_offset, found.metadata or "", found.committed_leader_epoch)


class GroupOffsetsError(Exception):
    """The offsets could not be read or changed."""


class GroupOffsets:
    """Reads, sets and removes the offsets of groups."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    async def committed(self, group: str) -> dict[Partition, int]:
        """Return the offset of each partition; none for a group that does not exist.

        Raises GroupOffsetsError.
        """
        return {where: entry.offset for where, entry in (await self.entries(group)).items()}

    async def entries(
        self, group: str, only: Partition | None = None
    ) -> dict[Partition, GroupEntry]:
        """Return what was committed for each partition, or for one. Raises GroupOffsetsError."""
        topics = None
        if only is not None:
            kind = OffsetFetchRequest.OffsetFetchRequestTopic
            topics = [kind(name=only[0], partition_indexes=[only[1]])]
        request = OffsetFetchRequest(group_id=group, topics=topics)

        def check(response: OffsetFetchResponse) -> dict[Partition, GroupEntry]:
            raise_for(response.error_code, about=f"group {group}")
            return {
                (topic.name, each.partition_index): GroupEntry.of(each)
                for topic in response.topics
                for each in topic.partitions
                if each.committed_offset >= 0
            }

        return await self._ask(group, request, OffsetFetchResponse, check, _FETCH_OF_ONE_GROUP)

    async def commit(self, group: str, entries: Mapping[Partition, GroupEntry]) -> None:
        """Set positions with their metadata and leader epochs. Raises GroupOffsetsError."""
        partition_kind = OffsetCommitRequest.OffsetCommitRequestPartition
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    partition_kind(
                        partition_index=number,
                        committed_offset=entries[name, number].offset,
                        committed_leader_epoch=entries[name, number].leader_epoch,
                        committed_metadata=entries[name, number].metadata,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in _by_topic(entries).items()
        ]

        def check(response: OffsetCommitResponse) -> None:
            for topic in response.topics:
                for each in topic.partitions:
                    where = topic.name, each.partition_index
                    _raise_for_partition(group, where, each.error_code)

        request = OffsetCommitRequest(group_id=group, topics=topics)
        await self._ask(group, request, OffsetCommitResponse, check, _COMMIT_BY_NAME)

    async def alter(self, group: str, positions: Mapping[Partition, int | None]) -> None:
        """Set positions; None removes the offset of a partition. Raises GroupOffsetsError."""
        kept = {where: at for where, at in positions.items() if at is not None}
        if kept:
            await self.commit(group, {where: GroupEntry(at) for where, at in kept.items()})
        removed = [where for where, at in positions.items() if at is None]
        if removed:
            await self._remove(group, removed)

    async def reset(self, group: str) -> None:
        """Remove the group with all its offsets. Raises GroupOffsetsError."""

        def check(response: DeleteGroupsResponse) -> None:
            for result in response.results:
                if error_code(result.error_code) is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise_for(result.error_code, about=f"group {group}")

        request = DeleteGroupsRequest(groups_names=[group])
        await self._ask(group, request, DeleteGroupsResponse, check)

    async def _remove(self, group: str, partitions: Iterable[Partition]) -> None:
        partition_kind = OffsetDeleteRequest.OffsetDeleteRequestPartition
        topics = [
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[partition_kind(partition_index=number) for number in numbers],
            )
            for name, numbers in _by_topic(partitions).items()
        ]

        def check(response: OffsetDeleteResponse) -> None:
            if error_code(response.error_code) is ErrorCode.GROUP_ID_NOT_FOUND:
                return
            raise_for(response.error_code, about=f"group {group}")
            for topic in response.topics:
                for each in topic.partitions:
                    where = topic.name, each.partition_index
                    _raise_for_partition(group, where, each.error_code)

        request = OffsetDeleteRequest(group_id=group, topics=topics)
        await self._ask(group, request, OffsetDeleteResponse, check)

    async def _ask(
        self,
        group: str,
        request: Message,
        answer: type[R],
        check: Callable[[R], T],
        max_version: int | None = None,
    ) -> T:
        """Return what `check` makes of the coordinator's response. Raises GroupOffsetsError."""
        client = self._client

        async def attempt() -> T:
            return await client.ask_coordinator(
                group,
                _LANE,
                request,
                answer,
                check,
                timeout_s=_REQUEST_TIMEOUT_S,
                max_version=max_version,
            )

        what = f"the request for the offsets of group {group}"
        try:
            return await client.retry(what, attempt, timeout_s=_TIMEOUT_S)
        except (KafkaError, ClientError) as error:
            raise GroupOffsetsError(str(error)) from error


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for name, number in partitions:
        found[name].append(number)
    return found


def _raise_for_partition(group: str, where: Partition, number: int) -> None:
    """Raise the error of one partition; what the coordinator cannot do now is tried again."""
    code = error_code(number)
    is_of_group = code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    name = f"group {group}" if is_of_group else f"{where[0]}-{where[1]}"
    if code in COORDINATOR_ERRORS:
        raise KafkaError(code, name)
    if code is not ErrorCode.NONE:
        raise GroupOffsetsError(f"{name}: {code.name}")
