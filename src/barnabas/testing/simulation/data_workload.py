"""The data of a simulation: its topics, its clients, and what must hold at the end."""

from collections import Counter

import attrs

from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.data_clients import SimConsumer, SimProducer
from barnabas.testing.simulation.idempotent_producer import IdempotentProducer
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.topic_creation import NewTopic, TopicCreation

DATA_TOPIC = "data"
_CREATOR_ID = 30_000


@attrs.define(slots=True, eq=False)
class DataWorkload:
    """One topic with its producers and consumers."""

    cluster: SimCluster
    options: SeedOptions
    invariants: PartitionInvariants
    producers: list[SimProducer]
    idempotent: list[IdempotentProducer]
    consumers: list[SimConsumer]
    lost_uncleanly: int = 0
    """Acknowledged batches that an unclean election has discarded."""

    @classmethod
    def of(
        cls, cluster: SimCluster, options: SeedOptions, invariants: PartitionInvariants
    ) -> "DataWorkload":
        """Return the workload of the options."""
        places = [(DATA_TOPIC, number) for number in range(options.partitions)]
        producers = [
            SimProducer(cluster, number, places, invariants, options.producer_pause_ms)
            for number in range(options.producers)
        ]
        idempotent = [
            IdempotentProducer(
                cluster,
                2_000 + number,
                places[number % len(places)],
                invariants,
                options.producer_pause_ms,
            )
            for number in range(options.idempotent_producers)
        ]
        consumers = [
            SimConsumer(
                cluster,
                1_000 + number,
                place,
                invariants,
                options.rack_of(number),
                has_deletions=options.deletion_pause_ms > 0,
            )
            for number, place in enumerate(places)
        ]
        return cls(cluster, options, invariants, producers, idempotent, consumers)

    def start(self) -> None:
        """Create the topic and start the clients."""
        options = self.options
        topic = NewTopic(
            name=DATA_TOPIC,
            partitions=options.partitions,
            replication_factor=options.replication_factor,
            min_insync_replicas=options.min_insync_replicas,
        )
        TopicCreation(self.cluster, _CREATOR_ID, [topic], lambda: None)
        for client in (*self.producers, *self.idempotent, *self.consumers):
            client.start()

    def stop(self) -> None:
        """Let the producers begin no further batch."""
        for producer in (*self.producers, *self.idempotent):
            producer.is_stopped = True

    def lost_values(self, topic: str, partition: int) -> set[bytes]:
        """Return the values of committed records that an unclean election has ended."""
        image = self.cluster.newest_image()
        batches = self.invariants.lost_batches(image.topics_by_name[topic].id, partition)
        return {value for data in batches for value in _record_values(data)}

    def values(self, topic: str, partition: int) -> list[bytes]:
        """Return the values of a partition's committed records, as its leader has them."""
        image = next(node.image for node in self.cluster.nodes.values() if node.image is not None)
        found = image.partition(topic, partition)
        log = None if found is None else self.invariants.disks[found.leader].get(topic, partition)
        batches = [] if log is None else log.batches
        return [
            value
            for header, data in batches
            if log is not None and header.next_offset <= log.high_watermark
            if header.last_offset >= log.log_start_offset
            for value in _record_values(data)
        ]

    def check_end(self) -> None:
        """After a rest: full ISRs, equal replicas, and every acknowledged batch in its place."""
        node = next(node for node in self.cluster.nodes.values() if node.image is not None)
        image = node.image
        topic = None if image is None else image.topics_by_name.get(DATA_TOPIC)
        if topic is None:
            require(False, "LIVENESS", "the topic of the data does not exist")
            return
        leaders: dict[tuple[str, int], int] = {}
        for number, partition in topic.partitions.items():
            missing = set(partition.replicas) - set(partition.isr)
            require(not missing, "LIVENESS", f"{DATA_TOPIC}-{number} lacks {missing} in its ISR")
            require(partition.leader >= 0, "LIVENESS", f"{DATA_TOPIC}-{number} has no leader")
            leaders[DATA_TOPIC, number] = partition.leader
        self.invariants.check_end(leaders)
        self._check_acknowledged(topic.id, leaders)
        self._check_idempotent(topic.id, leaders)
        self._check_consumed(leaders)

    def _check_idempotent(self, topic_id: Uuid, leaders: dict[tuple[str, int], int]) -> None:
        """Check T3, and that no producer id was given twice."""
        for producer in self.idempotent:
            log = self.invariants.disks[leaders[producer.place]].get(*producer.place)
            is_lossy = self.invariants.has_losses(topic_id, producer.place[1])
            is_whole = not is_lossy and not self.options.deletion_pause_ms
            producer.check_end(log, is_whole=is_whole)
        given = Counter(each for producer in self.idempotent for each in producer.ids)
        twice = [each for each, count in given.items() if count > 1]
        require(not twice, "PID", f"the producer ids {twice} were given twice")

    def _check_consumed(self, leaders: dict[tuple[str, int], int]) -> None:
        """Every consumer has reached the end."""
        for consumer in self.consumers:
            log = self.invariants.disks[leaders[consumer.place]].get(*consumer.place)
            end = 0 if log is None else log.high_watermark
            what = f"a consumer of {consumer.place} is at {consumer.offset}, not at {end}"
            require(consumer.offset == end, "LIVENESS", what)

    def _check_acknowledged(self, topic_id: Uuid, leaders: dict[tuple[str, int], int]) -> None:
        """Check P4."""
        found: dict[tuple[str, int], dict[int, bytes]] = {}
        starts: dict[tuple[str, int], int] = {}
        for place, leader in leaders.items():
            log = self.invariants.disks[leader].get(*place)
            batches = log.batches if log is not None else []
            found[place] = {header.base_offset: data for header, data in batches}
            starts[place] = 0 if log is None else log.log_start_offset
        for producer in (*self.producers, *self.idempotent):
            for done in producer.acknowledged:
                place = done.topic, done.partition
                if done.offset < starts[place]:
                    continue  # deleted
                data = found[place].get(done.offset)
                is_there = data is not None and _values(data) == _values(done.batch)
                is_excused = not is_there and self.invariants.is_lost_uncleanly(
                    topic_id, done.partition, done.offset, done.leader_epoch
                )
                if is_excused:
                    self.lost_uncleanly += 1
                    continue
                require(is_there, "P4", f"{done.topic}-{done.partition} lost {done.offset}")


def _record_values(data: bytes) -> list[bytes]:
    ((_, header),) = iter_batches(data)
    return [record.value or b"" for record in read_records(data, 0, header)]


def _values(data: bytes) -> tuple[int, int]:
    """Return the crc and the number of records, which do not change with the offset."""
    (_, header), *_ = iter_batches(data)
    return header.crc, header.record_count
