"""The difference of two images leads from one to the other, as a snapshot replaces an image."""

import attrs
import pytest

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_difference import difference
from barnabas.cluster.metadata.metadata_transaction import MetadataTransaction
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
)
from tests.cluster.states import Cluster


def images() -> list[MetadataImage]:
    """Return images of one cluster over time."""
    cluster = Cluster(brokers=2)
    found = [MetadataImage(cluster_id=cluster.image.cluster_id), cluster.image]
    cluster.create("first", partitions=2)
    cluster.replay([ConfigRecord(resource_type=2, resource_name="first", name="a", value="1")])
    found.append(cluster.image)
    cluster.create("second")
    cluster.replay([RemoveTopicRecord(topic_id=cluster.image.topics_by_name["first"].id)])
    cluster.add_broker(3)
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=1)])
    found.append(cluster.image)
    return found


@pytest.mark.parametrize("old", range(4))
@pytest.mark.parametrize("new", range(4))
def test_difference_applied_to_the_old_image_gives_the_new_one(old: int, new: int) -> None:
    before, after = images()[old], images()[new]
    found = difference(before, after).apply(after.offset, after.record_epoch)
    known = attrs.evolve(found, controller_id=after.controller_id, epoch=after.epoch)
    if after.controllers == known.controllers:  # controllers are never removed
        assert known == after


def test_difference_of_equal_images_is_empty() -> None:
    assert difference(images()[2], images()[2]).is_empty


BEGIN, END = BeginTransactionRecord(), EndTransactionRecord()
RECORD = FeatureLevelRecord(name="group.version", feature_level=1)


def test_transaction_holds_records_back_until_its_end() -> None:
    transaction = MetadataTransaction()
    assert transaction.take([BEGIN, RECORD], 2) is None
    assert transaction.is_open
    assert transaction.take([END], 3) == [RECORD]
    assert not transaction.is_open


def test_transaction_aborted_has_no_effect() -> None:
    transaction = MetadataTransaction()
    assert transaction.take([BEGIN, RECORD], 2) is None
    assert transaction.take([AbortTransactionRecord()], 3) == []


def test_transaction_whose_end_was_truncated_is_open_again() -> None:
    transaction = MetadataTransaction()
    transaction.take([BEGIN, RECORD], 2)
    transaction.take([END], 3)
    transaction.truncate(2)
    assert transaction.take([END], 3) == [RECORD]
    transaction.trim(3)
    transaction.truncate(3)
    assert not transaction.is_open
