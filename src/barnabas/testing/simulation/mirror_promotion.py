"""The promotion of a mirror in the simulation, and a producer that writes right after it.

The producer has ids of this cluster, which the source has assigned, too. PR: after the mirrored
batches there is one marker for each transaction that was open in them, then the batches of the
producer, and nothing else; the last stable offset is the high watermark.
"""

from typing import Final

from barnabas.cluster.metadata.image import RESOURCE_TOPIC
from barnabas.config.mirror_topics import SOURCE
from barnabas.log.segment.producer_state import read_marker
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.testing.simulation.idempotent_producer import IdempotentProducer
from barnabas.testing.simulation.mirror_flow import (
    MIRROR_PLACE,
    MIRROR_TOPIC,
    mirrored_batches,
)
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Send,
    Sleep,
    raise_error,
)
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_partition_log import SimPartitionLog

_CLIENT_NUMBER: Final = 37_000
_DELETE: Final = 1
_RETRY_MS: Final = 200
_PAUSE_MS: Final = 100


class _Writer(IdempotentProducer):
    """The producer; a leader without the newest metadata refuses it for a while."""

    def is_passing(self, code: ErrorCode) -> bool:
        """True for the refusal of a producer by a mirror."""
        return code is ErrorCode.POLICY_VIOLATION


class MirrorPromotion(ScriptedClient):
    """Deletes the property of the mirror, and has the producer begin."""

    def __init__(
        self, cluster: SimCluster, options: SeedOptions, invariants: PartitionInvariants
    ) -> None:
        super().__init__(cluster, _CLIENT_NUMBER)
        self._options = options
        self._invariants = invariants
        self.writer = _Writer(cluster, _CLIENT_NUMBER + 1, MIRROR_PLACE, invariants, _PAUSE_MS)
        self.is_promoted = False
        cluster.requests.expect(self.writer.process, ErrorCode.POLICY_VIOLATION)

    def script(self) -> Script:
        """Promote, however often a request fails, and let the producer write."""
        yield Sleep(self.random.randrange(2 * self._options.mirror_promotion_ms))
        while not self.is_promoted:
            try:
                yield from self._promote()
            except KafkaError:  # the next broker
                yield Sleep(_RETRY_MS)
        self.writer.start()

    def _promote(self) -> Script:
        self.known_topic(MIRROR_TOPIC)
        request = IncrementalAlterConfigsRequest
        resource = request.AlterConfigsResource(
            resource_type=RESOURCE_TOPIC,
            resource_name=MIRROR_TOPIC,
            configs=[request.AlterableConfig(name=SOURCE, config_operation=_DELETE, value=None)],
        )
        broker = self.random.choice(self._options.broker_ids)
        response = yield Send(broker, request(resources=[resource]))
        raise_error(response.responses[0].error_code)
        self.is_promoted = True

    def stop(self) -> None:
        """Let the producer end."""
        super().stop()
        self.writer.is_stopped = True

    def check_end(self) -> None:
        """Check PR."""
        require(self.is_promoted, "LIVENESS", "the mirror was not promoted")
        image = self.cluster.newest_image()
        partition = image.partition(*MIRROR_PLACE)
        log = (
            None
            if partition is None
            else self._invariants.disks[partition.leader].get(*MIRROR_PLACE)
        )
        if log is None:
            return
        mirrored = mirrored_batches(log, image)
        end = _check_markers(log, mirrored, self.writer.ids)
        stable, high_watermark = log.last_stable_offset, log.high_watermark
        require(stable == high_watermark, "PR", f"{log!r} is stable up to {stable} only")
        is_whole = not self._invariants.has_losses(log.topic_id, log.partition)
        self.writer.check_end(log, is_whole=is_whole, start_offset=end)


def _check_markers(log: SimPartitionLog, mirrored: list[bytes], ids: list[int]) -> int:
    """Check what follows the mirrored batches; return where the batches of the producer begin."""
    is_open: list[int] = []
    for data in mirrored:
        ((_, header),) = iter_batches(data)
        if header.is_control:
            if header.producer_id in is_open:  # else it began before the log starts
                is_open.remove(header.producer_id)
        elif header.is_transactional and header.producer_id not in is_open:
            is_open.append(header.producer_id)
    rest = log.batches[len(mirrored) :]
    markers = rest[: len(is_open)]
    found = [(header.producer_id, read_marker(data, header)) for header, data in markers]
    are_aborts = all(marker is not None and not marker.is_commit for _, marker in found)
    is_right = are_aborts and sorted(each for each, _ in found) == sorted(is_open)
    require(is_right, "PR", f"{log!r} has {found} after open transactions of {is_open}")
    written = [header for header, _ in rest[len(is_open) :]]
    others = [header.producer_id for header in written]
    require(set(others) <= set(ids), "PR", f"{log!r} has batches of {others}, not only of {ids}")
    return written[0].base_offset if written else log.log_end_offset
