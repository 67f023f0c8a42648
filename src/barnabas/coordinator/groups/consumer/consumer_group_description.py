"""The description of a consumer group: ConsumerGroupDescribe v0-1.

Kafka: ConsumerGroup.asDescribedGroup.
"""

from collections.abc import Collection, Mapping

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_member import NO_ASSIGNMENT, ConsumerMember
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.types import Uuid

_Described = ConsumerGroupDescribeResponse.DescribedGroup
_Member = ConsumerGroupDescribeResponse.Member
_Assignment = ConsumerGroupDescribeResponse.Assignment
_Partitions = ConsumerGroupDescribeResponse.TopicPartitions

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def described(group: ConsumerGroup, default_assignor: str, image: MetadataImage) -> _Described:
    """Return the group with its members, their current assignments and their targets."""
    return _Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> _Member:
    held: dict[Uuid, list[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, partitions in owned.items():
            held.setdefault(topic_id, []).extend(partitions)
    return _Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(group.target.get(member.member_id, NO_ASSIGNMENT), image),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Collection[int]], image: MetadataImage) -> _Assignment:
    return _Assignment(
        topic_partitions=[
            _Partitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )
