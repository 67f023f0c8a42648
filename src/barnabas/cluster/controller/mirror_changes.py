"""Changes of a topic's flow: the promotion of a mirror, and the other way around.

Batches of a flow and of ordinary producers are never in one leader epoch. So with the flow, the
leader epoch of every partition changes, in the same step. At a promotion, the first epoch after
the mirror is kept in the topic's configuration for each partition: a replica that was offline
meanwhile, or is new, finds the end of the mirror by it.
"""

from collections.abc import Mapping

from barnabas.cluster.controller.election_rules import builder_of
from barnabas.cluster.controller.operation_result import Context, check_record_count
from barnabas.cluster.metadata.image import INTERNAL_TOPICS, TopicImage
from barnabas.config.mirror_topics import PROMOTED, SOURCE, Promotion
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message

Overrides = Mapping[str, str | None]


def check_new_topic(topic: str, overrides: Overrides) -> None:
    """Check the properties of a topic to create. Raises KafkaError INVALID_CONFIG."""
    if overrides.get(PROMOTED) is not None:
        raise _set_by_controller()
    _check_kind(topic, overrides)


def complete(
    context: Context, topic: str, current: Mapping[str, str], changes: dict[str, str | None]
) -> list[Message]:
    """Check the changes of an existing topic, and add what follows from another flow.

    Return the records that start new leader epochs, if the flow changes. Raises KafkaError
    INVALID_CONFIG, and POLICY_VIOLATION for too many partitions.
    """
    promoted = current.get(PROMOTED)
    if changes.pop(PROMOTED, promoted) not in (promoted, None):
        raise _set_by_controller()
    if changes.get(SOURCE) == "":
        changes[SOURCE] = None
    if SOURCE not in changes or changes[SOURCE] == current.get(SOURCE):
        return []
    _check_kind(topic, changes)
    changes[PROMOTED] = None
    if changes[SOURCE] is None:
        changes[PROMOTED] = _promotion(context.image.topics_by_name[topic], current[SOURCE])
    if promoted is None and changes[PROMOTED] is None:
        del changes[PROMOTED]
    return _new_epochs(context, context.image.topics_by_name[topic])


def _new_epochs(context: Context, topic: TopicImage) -> list[Message]:
    """Return the records that start a leader epoch in every partition of a topic."""
    records: list[Message] = []
    for number, partition in topic.partitions.items():
        builder = builder_of(context, topic, partition)
        builder.starts_epoch = True
        record = builder.build(topic.id, number)
        if record is not None:
            records.append(record)
    check_record_count(records)
    return records


def _promotion(topic: TopicImage, flow: str) -> str:
    count = max(topic.partitions) + 1
    epochs = tuple(topic.partitions[number].leader_epoch + 1 for number in range(count))
    promotion = Promotion(flow, epochs)
    if not promotion.fits:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Topic {topic.name} has {count} partitions, too many to promote it in one step",
        )
    return str(promotion)


def _check_kind(topic: str, overrides: Overrides) -> None:
    if overrides.get(SOURCE) and topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Internal topic {topic} cannot be a mirror: unset {SOURCE}"
        )


def _set_by_controller() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"{PROMOTED} is written by the controller only, when a mirror is promoted: leave it out",
    )
