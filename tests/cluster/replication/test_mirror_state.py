"""The end of a mirror is settled once in each leader epoch, however often metadata arrive."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.cluster.replication import Partition
from barnabas.config import NodeConfig, TopicConfig
from barnabas.log import PartitionLog
from barnabas.testing.batches import NOW_MS, batch
from barnabas.testing.mirrored import as_sent, placed
from tests.cluster.replication.fake_host import FakeHost
from tests.log.logs import TOPIC_ID, new_log, open_volume

CONFIG = NodeConfig.load(None, {})
MIRROR = TopicConfig(CONFIG, {"barnabas.mirror.source": "flow"})
PROMOTED = TopicConfig(CONFIG, {"barnabas.mirror.promoted": "flow:1"})
ALONE = PartitionImage((1,), (), (1,), 1, 0, 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    volume = open_volume(tmp_path)
    yield new_log(volume)
    volume.unlock()


def test_a_mirror_keeps_its_state_until_its_properties_or_the_leader_epoch_change(
    log: PartitionLog,
) -> None:
    partition = Partition("t", 0, TOPIC_ID, FakeHost(1, lambda: log))
    partition.update(ALONE, MIRROR)
    mirror = partition.mirror
    assert mirror is not None
    open_batch = placed(batch(b"open", producer=(2000, 6, 5), transactional=True), 0)
    partition.append_mirrored(as_sent([open_batch], 0), required_acks=1, now_ms=NOW_MS)
    partition.update(attrs.evolve(ALONE, partition_epoch=1), MIRROR)
    assert partition.mirror is mirror
    image = attrs.evolve(ALONE, leader_epoch=1, partition_epoch=2)
    partition.update(image, PROMOTED)
    promoted = partition.mirror
    assert promoted is not None
    assert promoted.is_settled
    assert log.log_end_offset == 2, "the record and the marker that aborts it"
    partition.update(attrs.evolve(image, partition_epoch=3), PROMOTED)
    assert partition.mirror is promoted
    # A leader that was elected again looks again: it may have lost the marker meanwhile.
    log.truncate_to(1)
    partition.update(attrs.evolve(image, leader_epoch=2, partition_epoch=4), PROMOTED)
    assert partition.mirror is promoted
    assert log.log_end_offset == 2
