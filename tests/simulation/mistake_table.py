"""The mistakes that the simulations must find, in one table.

Each row has a number of the list of issue 11's design, the mistake and its patch, the simulation
that finds it, the invariants that may reveal it, a seed that does, and the median number of seeds
until the next one does, when it was last searched.

`make sim-mistakes` searches for each mistake in at most 300 seeds, prints the table, and fails when
a mistake is not found, or when it needs three times as many seeds as before.
"""

import argparse
import logging
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence

import attrs

from barnabas.cluster.quorum import raft_state
from barnabas.cluster.quorum.image_snapshot import ImageSnapshot
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.testing.simulation import Simulation, prepare, run
from barnabas.testing.simulation.seed_options import NO_FEATURES
from tests.cluster import (
    broker_world,
    controller_mistakes,
    controller_simulation,
    partition_mistakes,
    partition_simulation,
    quorum_simulation,
    raft_mistakes,
    raft_seeds,
    voter_mistakes,
    voter_seeds,
)
from tests.cluster.replication import (
    follower_mistakes,
    isr_mistakes,
    isr_simulation,
    replication_simulation,
)
from tests.coordinator.transactions import transaction_mistakes, transaction_simulation
from tests.server.coordinators import coordinator_mistakes, moving_coordinator
from tests.simulation import (
    admission_mistakes,
    client_mistakes,
    cluster_scenarios,
    idempotence_mistakes,
    mirror_mistakes,
    quorum_mistakes,
)
from tests.simulation.planting import Plant, substituted

COUNT = 44
SEEDS_MAX = 300
WANTED = 5
GROWTH_MAX = 3

_SIM_SECONDS = 30
_PARTITION_STEPS = 300


@attrs.frozen
class Simulated:
    """A simulation; `run(seed)` raises an exception whose text begins with an invariant's name."""

    name: str
    run: Callable[[int], object]


RAFT = Simulated("Raft", raft_seeds.run)
VOTERS = Simulated("voters", voter_seeds.run)
CONTROLLER = Simulated("controller", controller_simulation.run)
BROKERS = Simulated("brokers", broker_world.run)
PARTITIONS = Simulated(
    "partitions", lambda seed: partition_simulation.World(seed, has_elr=True).run(_PARTITION_STEPS)
)
WITHOUT_ELR = Simulated(
    "partitions without ELR",
    lambda seed: partition_simulation.World(seed, has_elr=False).run(_PARTITION_STEPS),
)
ISR = Simulated("ISR", isr_simulation.run)
FOLLOWERS = Simulated("followers", replication_simulation.run)
TRANSACTIONS = Simulated("transactions", lambda seed: transaction_simulation.Simulation(seed).run())
COORDINATORS = Simulated("coordinators", moving_coordinator.run)
CLUSTER = Simulated(
    "whole cluster", lambda seed: run(prepare(seed, _SIM_SECONDS, features=NO_FEATURES))
)


def _scenario(name: str, scenario: Callable[[int], Simulation]) -> Simulated:
    return Simulated(name, lambda seed: run(scenario(seed)))


SNAPSHOTS = _scenario("whole cluster", cluster_scenarios.busy_quorum)
PARTITION = _scenario("whole cluster, one partition", cluster_scenarios.busy_partition)
PENDING = _scenario("whole cluster, pending ISR", cluster_scenarios.pending_isr)
EXPANDING = _scenario("whole cluster, expanding ISR", cluster_scenarios.expanding_isr)
OLD_VOTERS = _scenario("whole cluster, old voter", cluster_scenarios.old_voters)
DELETED = _scenario("whole cluster, deleted records", cluster_scenarios.deleted_records)
THROTTLED = _scenario("whole cluster, throttles", cluster_scenarios.throttled_replicas)
MOVING = _scenario("whole cluster, moving controllers", cluster_scenarios.moving_controllers)
EAGER = _scenario("whole cluster, eager copier", cluster_scenarios.eager_copier)
ELECTIONS = _scenario("whole cluster, disturbed elections", cluster_scenarios.disturbed_elections)
DISKS = _scenario("whole cluster, replaced disks", cluster_scenarios.replaced_disks)
FORWARDING = _scenario("whole cluster, forwarding brokers", cluster_scenarios.forwarding_brokers)
REPEATED = _scenario("whole cluster, repeated batches", cluster_scenarios.repeated_batches)
MIRROR = _scenario("whole cluster, mirrored topic", cluster_scenarios.mirrored_topic)
PROMOTED = _scenario("whole cluster, promoted mirror", cluster_scenarios.promoted_mirror)
UPGRADED = _scenario("whole cluster, kraft upgrade", cluster_scenarios.upgraded_quorum)


@attrs.frozen
class Mistake:
    """A row of the table; the number is None for a mistake that is not in the list."""

    number: int | None
    name: str
    plant: Plant
    simulation: Simulated
    invariants: str
    seed: int
    median: int

    @property
    def id(self) -> str:
        """The name of its test."""
        return f"{self.number or 'more'}-{self.simulation.name}-{self.name}".replace(" ", "_")

    def violation(self, seed: int) -> str:
        """Run a seed with the mistake; return the text of the violation, empty without one."""
        with self.plant():
            return violation_of(self.simulation, seed)

    def is_revealed(self, seed: int) -> bool:
        """True when a seed reveals the mistake by one of its invariants."""
        return self.violation(seed).partition(":")[0] in self.invariants.split()


def violation_of(simulation: Simulated, seed: int) -> str:
    """Run a seed; return the text of the violation, empty without one."""
    try:
        simulation.run(seed)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def _core(mistaken: type) -> Plant:
    return substituted(quorum_simulation.Simulation, "core_type", mistaken)


def _machine(mistaken: type) -> Plant:
    return substituted(controller_simulation.ControllerSimulation, "machine_type", mistaken)


def _controller(mistaken: type) -> Plant:
    return substituted(broker_world.BrokerWorld, "controller_type", mistaken)


def _snapshot_id() -> Plant:
    """9: the id of a snapshot has the epoch of the quorum, not that of its last record."""
    mistaken = property(
        lambda snapshot: SnapshotId(snapshot.image.offset + 1, snapshot.image.epoch)
    )
    return substituted(ImageSnapshot, "id", mistaken)


def _evidence(mistaken: type) -> Plant:
    return substituted(broker_world.BrokerWorld, "evidence_type", mistaken)


# fmt: off
MISTAKES: tuple[Mistake, ...] = (
    Mistake(1, "a restarted leader forgets that it led the epoch",
            _core(raft_mistakes.ForgetsLeadershipAtRestart),
            RAFT, "R1 R2", 0, 1),
    Mistake(2, "a vote is written after it is answered",
            quorum_mistakes.write_the_vote_after_its_answer,
            ELECTIONS, "R1 R2", 1, 3),
    Mistake(3, "a follower that fetches grants pre-votes",
            _core(raft_mistakes.GrantsPreVotesWhileFollowing),
            RAFT, "DEPOSED", 0, 1),
    Mistake(4, "a leader commits without a record of its epoch",
            _core(raft_mistakes.CommitsEarlierEpochs),
            RAFT, "LC HW", 2, 13),
    Mistake(5, "the high watermark counts the old voters",
            _core(voter_mistakes.CountsOldVoters),
            VOTERS, "LC", 0, 1),
    Mistake(6, "two changes of voters at once",
            voter_mistakes.change_twice_at_once,
            VOTERS, "VC R1", 14, 8),
    Mistake(7, "voters are not truncated with the log",
            voter_mistakes.keep_truncated_voters,
            VOTERS, "VS", 17, 1),
    Mistake(8, "an observer's fetch counts for the high watermark",
            voter_mistakes.count_observers,
            VOTERS, "LC", 1, 1),
    Mistake(9, "a snapshot names the current epoch",
            _snapshot_id(),
            SNAPSHOTS, "SN", 1, 2),
    Mistake(10, "an open metadata transaction is published",
            controller_mistakes.publish_open_transactions,
            CONTROLLER, "TX", 0, 1),
    Mistake(11, "a deferred operation is bound to the offset only",
            _machine(controller_mistakes.BindsToTheOffset),
            CONTROLLER, "R3", 3, 4),
    Mistake(12, "the speculative image is kept after losing leadership",
            controller_mistakes.keep_the_speculative_image,
            CONTROLLER, "IM R3", 3, 4),
    Mistake(13, "a resigned leader follows itself",
            _core(raft_mistakes.FollowsItself),
            RAFT, "R4", 0, 1),
    Mistake(14, "a leader without a majority does not resign",
            _core(raft_mistakes.LeadsWithoutContact),
            RAFT, "CQ", 0, 1),
    Mistake(15, "a follower's state is taken before the divergence check",
            isr_mistakes.note_followers_before_the_divergence_check,
            ISR, "P1 P3 P4", 5, 4),
    Mistake(16, "a new follower truncates to its high watermark",
            follower_mistakes.truncate_to_the_high_watermark,
            FOLLOWERS, "P1 P4", 91, 92),
    Mistake(16, "a diverged follower truncates to its high watermark",
            follower_mistakes.truncate_diverged_to_the_high_watermark,
            ISR, "P1 P4 L", 19, 119),
    Mistake(17, "lastFetchedEpoch is the leader's epoch",
            follower_mistakes.fetch_with_the_leader_epoch,
            FOLLOWERS, "P1 P4", 0, 1),
    Mistake(18, "a stale response is appended after a leader change",
            follower_mistakes.append_stale_responses,
            FOLLOWERS, "P1 P4 L", 1, 3),
    Mistake(19, "an election without appends assigns no leader epoch",
            isr_mistakes.start_no_epoch,
            ISR, "EP", 0, 1),
    Mistake(20, "an expanding ISR counts without the joining replica",
            isr_mistakes.expand_without_the_joining_replica,
            ISR, "P3 P4", 146, 150),
    Mistake(20, "a shrink counts before it is confirmed",
            isr_mistakes.shrink_at_once,
            ISR, "P3 P4", 33, 18),
    Mistake(21, "a replica joins the ISR below the epoch's start",
            isr_mistakes.join_below_the_epoch_start,
            ISR, "P4", 28, 14),
    Mistake(22, "a replica joins the ISR without its broker epoch",
            isr_mistakes.expand_without_the_broker_epoch,
            ISR, "P3 P4", 40, 59),
    Mistake(23, "AlterPartition does not compare the partition epoch",
            partition_mistakes.isr_without_partition_epoch,
            PARTITIONS, "PE", 0, 1),
    Mistake(24, "INVALID_UPDATE_VERSION rolls a pending ISR back",
            isr_mistakes.roll_back_after_a_version_error,
            ISR, "P3 P4", 47, 150),
    Mistake(25, "an image older than the answer is accepted",
            isr_mistakes.take_older_images,
            ISR, "P3 P4", 23, 150),
    Mistake(26, "a new incarnation keeps its ISR seat",
            partition_mistakes.new_incarnation_keeps_its_isr_seat,
            PARTITIONS, "P4 FB LD", 0, 1),
    Mistake(27, "an unclean restart stays in the ELR",
            partition_mistakes.unclean_restart_stays_eligible,
            PARTITIONS, "P4", 3, 3),
    Mistake(28, "the high watermark moves below min.insync.replicas",
            isr_mistakes.commit_below_min_isr,
            ISR, "P1 P4", 9, 2),
    Mistake(29, "the ELR is not cleared by an unclean election",
            partition_mistakes.elr_survives_an_unclean_election,
            PARTITIONS, "UE", 0, 1),
    Mistake(30, "a broker is unfenced before it has caught up",
            _controller(controller_mistakes.UnfencesBeforeCatchingUp),
            BROKERS, "B1", 0, 1),
    Mistake(31, "a broker is fenced in a batch before the ISR changes",
            _controller(controller_mistakes.FencesBeforeIsrChanges),
            BROKERS, "B2", 0, 1),
    Mistake(31, "a fenced broker stays in its ISRs",
            partition_mistakes.fenced_before_it_leaves_its_isrs,
            PARTITIONS, "LD FB", 0, 1),
    Mistake(32, "a heartbeat is known by the id without the epoch",
            _controller(controller_mistakes.KeysSessionsById),
            BROKERS, "B4", 24, 25),
    Mistake(33, "the sessions of a new controller start expired",
            _controller(controller_mistakes.StartsWithExpiredSessions),
            BROKERS, "B3", 2, 3),
    Mistake(34, "a controlled shutdown does not wait for the others",
            _controller(controller_mistakes.StopsWithoutWaitingForOthers),
            BROKERS, "B5", 1, 2),
    Mistake(35, "a reassignment completes without all added replicas",
            partition_mistakes.reassignment_ends_without_all_added_replicas,
            PARTITIONS, "RE P4", 1, 1),
    Mistake(35, "a reassignment completes in the same leader epoch",
            partition_mistakes.removed_replica_stays_in_the_leader_epoch,
            PARTITIONS, "RE", 0, 1),
    Mistake(36, "NOT_ENOUGH_REPLICAS is decided after the append",
            isr_mistakes.refuse_after_the_append,
            ISR, "P3", 0, 1),
    Mistake(36, "NOT_ENOUGH_REPLICAS_AFTER_APPEND is never answered",
            isr_mistakes.never_refuse_after_the_append,
            ISR, "P3", 20, 54),
    Mistake(37, "a block of producer ids is handed out before the commit",
            _machine(controller_mistakes.HandsOutBlocksBeforeCommit),
            CONTROLLER, "PID", 5, 8),
    Mistake(38, "a marker of a deposed coordinator is written",
            transaction_mistakes.write_markers_of_deposed_coordinators,
            TRANSACTIONS, "T1 T2 T6", 314, 211),
    Mistake(38, "the error of a marker counts as success",
            transaction_mistakes.take_failed_markers_as_written,
            TRANSACTIONS, "T1 T2 T6", 2, 2),
    Mistake(39, "a coordinator answers after losing its partition",
            coordinator_mistakes.answer_after_losing_the_partition,
            COORDINATORS, "G2 NC", 0, 1),
    Mistake(40, "a replica in an offline directory may lead",
            partition_mistakes.offline_directory_may_lead,
            PARTITIONS, "LD P4", 0, 2),
    Mistake(41, "a fetch session hides a high watermark",
            isr_mistakes.hide_high_watermarks_in_sessions,
            ISR, "L", 0, 1),
    Mistake(41, "a fetch session hides a divergence",
            isr_mistakes.hide_divergence_in_sessions,
            ISR, "L", 2, 2),
    Mistake(42, "one reset of a connection is evidence",
            _evidence(controller_mistakes.CountsOneReset),
            BROKERS, "B3", 1, 2),
    Mistake(43, "without ELR, the last ISR member is dropped",
            partition_mistakes.last_in_sync_replica_is_dropped,
            WITHOUT_ELR, "IS", 0, 1),
    Mistake(44, "a follower serves above its high watermark",
            isr_mistakes.serve_above_the_high_watermark,
            ISR, "P2", 0, 1),
    Mistake(None, "a voter votes twice in an epoch",
            _core(raft_mistakes.VotesTwice),
            RAFT, "R1 R2", 0, 5),
    Mistake(None, "a voter does not compare the logs",
            _core(raft_mistakes.GrantsVotesToShorterLogs),
            RAFT, "LC HW", 0, 1),
    Mistake(None, "a leader counts records before they are durable",
            _core(raft_mistakes.CountsUnsyncedRecords),
            RAFT, "LC HW", 3, 2),
    Mistake(None, "a leader counts diverged followers",
            _core(raft_mistakes.CountsDivergedFollowers),
            RAFT, "LC HW", 2, 3),
    Mistake(None, "a candidate leads with half of the votes",
            _core(raft_mistakes.LeadsWithoutMajority),
            RAFT, "R1 LC", 0, 1),
    Mistake(None, "a candidate takes one vote less than a majority",
            _core(voter_mistakes.ElectsWithOneVoteLess),
            VOTERS, "R1 LC HW", 0, 1),
    Mistake(None, "the images of truncated records are published",
            _machine(controller_mistakes.KeepsTruncatedImages),
            CONTROLLER, "IM R3", 3, 4),
    Mistake(None, "operations are answered before the commit",
            _machine(controller_mistakes.AnswersBeforeCommit),
            CONTROLLER, "R3", 0, 1),
    Mistake(None, "a deposed leader without records keeps its epoch",
            follower_mistakes.keep_the_epoch_of_a_leader_without_records,
            FOLLOWERS, "P1 P4 L", 13, 88),
    Mistake(None, "a follower never truncates",
            follower_mistakes.append_records_of_later_epochs,
            FOLLOWERS, "P1 P4 L", 0, 1),
    Mistake(None, "a follower joins the ISR before it has caught up",
            isr_mistakes.join_at_once,
            ISR, "P3 P4", 4, 5),
    Mistake(None, "acks=all is answered without followers",
            isr_mistakes.acknowledge_without_followers,
            CLUSTER, "P3 P4", 3, 3),
    Mistake(None, "the high watermark is the log end",
            isr_mistakes.commit_the_log_end,
            CLUSTER, "P1 P2 P3 P4", 10, 2),
    Mistake(None, "the leader finds no divergence",
            isr_mistakes.find_no_divergence,
            CLUSTER, "P1 P4 P3", 10, 10),
    Mistake(15, "a follower's state is taken before the divergence check",
            isr_mistakes.note_followers_before_the_divergence_check,
            PARTITION, "P1 P3 P4", 42, 73),
    Mistake(16, "a new follower truncates to its high watermark",
            follower_mistakes.truncate_to_the_high_watermark,
            PARTITION, "P1 P3 P4", 1, 2),
    Mistake(16, "a diverged follower truncates to its high watermark",
            follower_mistakes.truncate_diverged_to_the_high_watermark,
            PARTITION, "P1 P4 LIVENESS", 0, 2),
    Mistake(17, "lastFetchedEpoch is the leader's epoch",
            follower_mistakes.fetch_with_the_leader_epoch,
            PARTITION, "P1 P2 LIVENESS", 9, 10),
    Mistake(19, "an election without appends assigns no leader epoch",
            isr_mistakes.start_no_epoch,
            PARTITION, "P4 C1", 0, 1),
    Mistake(20, "an expanding ISR counts without the joining replica",
            isr_mistakes.expand_without_the_joining_replica,
            EXPANDING, "P4", 1, 2),
    Mistake(20, "a shrink counts before it is confirmed",
            isr_mistakes.shrink_at_once,
            PENDING, "P1 P4", 6, 4),
    Mistake(None, "a follower joins the ISR before it has caught up",
            isr_mistakes.join_at_once,
            PARTITION, "P4", 2, 11),
    Mistake(None, "a candidate that keeps losing tries again at once",
            substituted(raft_state, "_QUICK_ELECTIONS", 1 << 30),
            OLD_VOTERS, "LIVENESS", 2, 2),
    Mistake(None, "a follower below the leader's log start begins at the leader's log end",
            follower_mistakes.restart_at_the_log_end,
            DELETED, "LS P1 P4", 0, 2),
    Mistake(None, "a throttled replica is not fetched when the throttle has ended",
            follower_mistakes.stay_throttled,
            THROTTLED, "LIVENESS", 10, 9),
    Mistake(None, "the reports of voters about themselves have no effect",
            voter_mistakes.ignore_reports,
            MOVING, "VU", 5, 4),
    Mistake(None, "kraft.version is upgraded without the directories of the voters",
            voter_mistakes.upgrade_without_directories,
            UPGRADED, "KV", 0, 1),
    Mistake(None, "a first write is refused by its guard before the coordinator's answer",
            admission_mistakes.look_at_one_guard_first,
            EAGER, "C1", 0, 1),
    Mistake(None, "the log counts as synced before its fsync",
            quorum_mistakes.count_as_synced_before_the_fsync,
            ELECTIONS, "LC HW R3", 0, 16),
    Mistake(None, "the vote is forgotten at a restart",
            quorum_mistakes.forget_the_vote_at_a_restart,
            ELECTIONS, "R1 R2", 19, 16),
    Mistake(None, "a replaced disk counts as the voter that it was",
            quorum_mistakes.count_replaced_disks,
            DISKS, "LC", 0, 1),
    Mistake(None, "a batch that is sent again is appended again",
            idempotence_mistakes.append_duplicates,
            REPEATED, "T3 C1", 0, 1),
    Mistake(None, "a batch that is sent again is out of order",
            idempotence_mistakes.refuse_duplicates,
            REPEATED, "C1", 0, 1),
    Mistake(None, "a batch that is sent again is acknowledged before it is committed",
            idempotence_mistakes.acknowledge_duplicates_at_once,
            REPEATED, "P4", 0, 1),
    Mistake(None, "a batch that a mirror has is acknowledged before it is committed",
            mirror_mistakes.acknowledge_known_batches_at_once,
            MIRROR, "MR", 1, 1),
    Mistake(None, "a promotion leaves transactions of the source open",
            mirror_mistakes.leave_transactions_open,
            PROMOTED, "PR", 0, 1),
    Mistake(None, "a promotion keeps the producers of the source",
            mirror_mistakes.keep_mirrored_producers,
            PROMOTED, "C1", 0, 1),
    Mistake(None, "a mirror's log starts again, and its followers' do not yet",
            mirror_mistakes.answer_deletions_at_once,
            PROMOTED, "MR", 0, 1),
    Mistake(None, "a broker forwards nothing after it has lost a connection",
            client_mistakes.forward_nothing_after_a_failure,
            FORWARDING, "LIVENESS", 1, 3),
    Mistake(None, "a leader refuses the offset after its last record",
            client_mistakes.refuse_the_end_of_the_log,
            PARTITION, "C1", 0, 1),
)
# fmt: on


def median_seeds(found: Sequence[int], searched: int) -> int:
    """Return the median number of seeds from one that reveals the mistake to the next.

    The seeds after the last one count, too, when the search did not find all that it wanted.
    """
    gaps = [after - before for before, after in zip([-1, *found], found, strict=False)]
    if len(found) < WANTED:
        gaps.append(searched - (found[-1] if found else -1))
    return round(statistics.median(gaps))


def search(mistake: Mistake, seeds_max: int = SEEDS_MAX) -> tuple[list[int], int]:
    """Return the first seeds that reveal a mistake, and their median distance."""
    found: list[int] = []
    for seed in range(seeds_max):
        if mistake.is_revealed(seed):
            found.append(seed)
            if len(found) == WANTED:
                break
    return found, median_seeds(found, seeds_max)


def rows(mistakes: Iterable[Mistake]) -> list[str]:
    """Return the table as a page shows it."""
    lines = [
        "| number | mistake | simulation | invariant | seed | median seeds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in mistakes:
        number = "" if each.number is None else str(each.number)
        fields = (number, each.name, each.simulation.name, each.invariants.replace(" ", ", "))
        lines.append(f"| {' | '.join(fields)} | {each.seed} | {each.median} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Search for the mistakes and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mistake_table")
    parser.add_argument("--page", action="store_true", help="print the table without a search")
    parser.add_argument("--only", default="", help="search for the mistakes whose test has this")
    given = parser.parse_args(arguments)
    if given.page:
        print("\n".join(rows(MISTAKES)))
        return 0
    logging.disable(logging.CRITICAL)
    failures = 0
    for mistake in MISTAKES:
        if given.only not in mistake.id:
            continue
        found, median = search(mistake)
        report = ""
        if not found:
            report = f" NOT FOUND in {SEEDS_MAX} seeds"
        elif median > GROWTH_MAX * mistake.median:
            report = f" GREW from {mistake.median}"
        failures += bool(report)
        print(f"{mistake.id}: seeds {found}, median {median}{report}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
