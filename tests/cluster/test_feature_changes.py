"""UpdateFeatures: responses and records when levels are raised or lowered."""

import pytest

from barnabas.cluster.controller.feature_changes import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from barnabas.cluster.metadata.feature_levels import metadata_changed
from barnabas.cluster.metadata.image import BrokerImage
from barnabas.cluster.metadata.record_versions import encode_at, records_at
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    decode_metadata_record,
)
from tests.cluster.states import Cluster, uuid

REFUSED = 95


def cluster_at(**levels: int) -> Cluster:
    cluster = Cluster()
    cluster.replay(
        [
            FeatureLevelRecord(name=name.replace("_", "."), feature_level=level)
            for name, level in levels.items()
        ]
    )
    return cluster


def update(
    cluster: Cluster, *wanted: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> tuple[int, list[Message], int | None]:
    """The code, the records and the kraft.version to go over to; the records take effect."""
    key = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        feature_updates=[
            key(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in wanted
        ],
        validate_only=validate_only,
    )
    result = cluster.controller.update_features(request, version)
    cluster.take(result)
    return result.response.error_code, result.records, result.kraft_version


def test_update_features_raises_lowers_and_removes_levels() -> None:
    cluster = cluster_at(metadata_version=21)
    for level, kind in ((2, UPGRADE), (1, SAFE_DOWNGRADE), (0, UNSAFE_DOWNGRADE)):
        code, records, _ = update(cluster, ("transaction.version", level, kind))
        assert (code, records) == (
            0,
            [FeatureLevelRecord(name="transaction.version", feature_level=level)],
        )
        assert cluster.image.features.get("transaction.version", 0) == level


def test_update_features_invalid_update_refuses_the_request() -> None:
    cluster = cluster_at(metadata_version=30)
    good, bad = ("group.version", 1, UPGRADE), ("transaction.version", 3, UPGRADE)
    assert update(cluster, good, bad) == (REFUSED, [], None)
    assert update(cluster, bad, good) == (REFUSED, [], None)


def test_update_features_validate_only_writes_no_record() -> None:
    cluster = cluster_at(metadata_version=21)
    cluster.kraft_version = 0
    wanted = [("group.version", 1, UPGRADE), ("kraft.version", 1, UPGRADE)]
    assert update(cluster, *wanted, validate_only=True) == (0, [], None)


def test_update_features_upgrades_kraft_version_and_never_downgrades_it() -> None:
    cluster = cluster_at(metadata_version=21)
    cluster.kraft_version = 0
    assert update(cluster, ("kraft.version", 1, UPGRADE)) == (0, [NoOpRecord()], 1)
    cluster.kraft_version = 1
    assert update(cluster, ("kraft.version", 1, UPGRADE)) == (0, [NoOpRecord()], None)
    assert update(cluster, ("kraft.version", 1, SAFE_DOWNGRADE)) == (0, [], None)
    assert update(cluster, ("kraft.version", 0, SAFE_DOWNGRADE)) == (REFUSED, [], None)


@pytest.mark.parametrize(
    ("level", "current", "changed"),
    [(24, 25, False), (23, 29, False), (22, 23, True), (22, 29, True), (29, 30, True)],
)
def test_update_features_downgrade_stops_at_the_last_metadata_change(
    level: int, current: int, changed: bool
) -> None:
    assert metadata_changed(level, current) == changed
    code, _, _ = update(
        cluster_at(metadata_version=current), ("metadata.version", level, SAFE_DOWNGRADE)
    )
    assert (code == REFUSED) == changed


def test_update_features_level_unsupported_by_a_broker_is_refused() -> None:
    cluster = cluster_at(metadata_version=30)
    (broker,) = cluster.image.brokers.values()
    assert isinstance(broker, BrokerImage)
    old = RegisterBrokerRecord(
        broker_id=2,
        features=[
            RegisterBrokerRecord.BrokerFeature(name="group.version", max_supported_version=0)
        ],
    )
    cluster.replay([old])
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(feature="group.version", max_version_level=1)
        ]
    )
    answer = cluster.controller.update_features(request, 2).response
    assert (answer.error_code, answer.error_message) == (
        REFUSED,
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 1 for feature group.version. Broker 2 does not support this feature.",
    )


def test_update_features_unsupported_feature_can_only_be_removed() -> None:
    cluster = cluster_at(metadata_version=30, share_version=1)
    assert update(cluster, ("share.version", 1, UPGRADE))[0] == REFUSED
    assert update(cluster, ("share.version", 0, SAFE_DOWNGRADE))[0] == 0
    assert "share.version" not in cluster.image.features


# What an older metadata.version can state


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        (7, (1, 1, 0, 0)),
        (8, (2, 1, 0, 0)),
        (17, (3, 2, 1, 1)),
        (22, (3, 2, 1, 1)),
        (23, (3, 2, 2, 2)),
        (30, (4, 3, 2, 2)),
    ],
)
def test_encode_at_uses_the_record_version_of_the_level(
    level: int, versions: tuple[int, ...]
) -> None:
    kinds = (
        RegisterBrokerRecord(),
        BrokerRegistrationChangeRecord(),
        PartitionRecord(),
        PartitionChangeRecord(),
    )
    # A record's value begins with frame version, type and version, a byte each.
    assert tuple(encode_at(record, level)[2] for record in kinds) == versions


def test_records_at_leaves_out_fields_that_the_level_lacks() -> None:
    whole = PartitionRecord(
        partition_id=3, replicas=[1], directories=[uuid(1)], eligible_leader_replicas=[2]
    )
    (without_elr,) = records_at([whole], 21)
    assert without_elr == PartitionRecord(partition_id=3, replicas=[1], directories=[uuid(1)])
    assert decode_metadata_record(encode_at(without_elr, 21)) == without_elr
    (bare,) = records_at([whole], 14)
    assert bare == PartitionRecord(partition_id=3, replicas=[1])
    assert whole.directories == [uuid(1)]
    assert records_at([whole], 30) == [whole]


def test_records_at_leaves_out_controllers_before_their_level() -> None:
    record = RegisterControllerRecord(controller_id=1)
    assert records_at([record], 14) == []
    assert records_at([record], 15) == [record]
