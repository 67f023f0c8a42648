"""Step 12: voters are added and removed at run time, also the active controller, under admin load.

The commands are those of a user: `barnabas cluster voters add|remove`, `barnabas format`.
"""

import itertools
import shutil
import subprocess
import sys
import time

import attrs
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from compat_tests.cluster import observation
from compat_tests.cluster.background_load import BackgroundLoad
from compat_tests.cluster.clusters import BarnabasCluster
from compat_tests.cluster.steps.trial import Figure, active_controller, unique_topic

_NODES = 5
_CHANGED_S = 90.0
_COMMAND_S = 60.0
_APPLIED_S = 60.0


def five_nodes() -> BarnabasCluster:
    """Return a cluster of five combined nodes, of which the first is the only voter."""
    cluster = BarnabasCluster(nodes=_NODES, voters=1)
    nodes = cluster.processes.layout.plan.nodes
    servers = ",".join(node.controller_address for node in nodes)
    for node in nodes:
        cluster.processes.nodes[node.node_id].config |= {
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{node.controller_address}",
            "controller.quorum.bootstrap.servers": servers,
        }
    return cluster


class AdminLoad(BackgroundLoad):
    """Creates and deletes topics one after the other; `wrong` compares them with the metadata.

    An operation whose outcome is unknown may have happened or not.
    """

    def __init__(self, bootstrap: str) -> None:
        self.existing: set[str] = set()
        self.deleted: set[str] = set()
        self.ends: list[float] = []
        self.errors: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._prefix = unique_topic()
        super().__init__()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                return
            topic = f"{self._prefix}-{number}"
            new = NewTopic(topic, 1, 1)
            if self._is_done(self._admin.create_topics([new], operation_timeout=10)[topic]):
                self.existing.add(topic)
                if number % 2:
                    self._delete(topic)
            self._stopping.wait(0.02)

    def _delete(self, topic: str) -> None:
        self.existing.discard(topic)
        if self._is_done(self._admin.delete_topics([topic], operation_timeout=10)[topic]):
            self.deleted.add(topic)

    def _is_done(self, future) -> bool:
        """True when the operation is acknowledged; a client's timeout leaves it unknown."""
        try:
            future.result(90)
        except KafkaException as error:
            if error.args[0].code() not in _UNKNOWN:
                self.errors.append(str(error))
            return False
        self.ends.append(time.monotonic())
        return True

    def wrong(self) -> list[str]:
        """Return the acknowledged operations that the metadata of the cluster does not have.

        The broker that answers may apply them a little later than the controller does.
        """
        deadline = time.monotonic() + _APPLIED_S
        while (wrong := self._wrong()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return wrong

    def _wrong(self) -> list[str]:
        found = set(self._admin.list_topics(timeout=60).topics)
        return [
            *(f"error: {each}" for each in self.errors),
            *(f"lost: {each}" for each in sorted(self.existing - found)),
            *(f"not deleted: {each}" for each in sorted(self.deleted & found)),
        ]

    def longest_gap(self) -> float:
        """Return the longest time between two acknowledged operations."""
        return max(later - earlier for earlier, later in itertools.pairwise(self.ends))


_UNKNOWN = (
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Errors after which an operation may have happened: a client may have sent it twice."""


@attrs.frozen
class Voters:
    """The quorum as an operator changes it: each change is a command, and returns its seconds."""

    cluster: BarnabasCluster

    def add(self, node_id: int) -> float:
        """Make an observer a voter, as soon as it has caught up."""
        endpoint = self._endpoint(node_id)
        voter = f"{node_id}@{endpoint}:{self.directory_id(node_id)}"
        started = time.monotonic()
        observation.seconds_until(lambda: self._command("add", voter), _CHANGED_S, pause_s=0.2)
        self._wait(node_id, is_voter=True)
        return time.monotonic() - started

    def remove(self, node_id: int) -> float:
        """Remove a voter; when it leads the quorum, wait until another one does."""
        started = time.monotonic()
        observation.seconds_until(
            lambda: self._command("remove", str(node_id), "--yes"), _CHANGED_S, pause_s=0.2
        )
        self._wait(node_id, is_voter=False)
        observation.seconds_until(lambda: active_controller(self.cluster) != node_id, _CHANGED_S)
        return time.monotonic() - started

    def directory_id(self, node_id: int) -> str:
        """Return the id of the directory with the quorum's log."""
        content = (self.cluster.directory(node_id) / META_PROPERTIES).read_bytes()
        return str(MetaProperties.decode(content).directory_id)

    def replace_disk(self, node_id: int) -> float:
        """Lose a voter's disk, format a new one, and put it in the place of the old one."""
        started = time.monotonic()
        node = self.cluster.processes.nodes[node_id]
        old = self.directory_id(node_id)
        directory = self.cluster.directory(node_id)
        cluster_id = MetaProperties.decode((directory / META_PROPERTIES).read_bytes()).cluster_id
        node.kill()
        shutil.rmtree(directory)
        file = self.cluster.data / f"node-{node_id}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in node.config.items()))
        self._run(
            *("format", "--config", str(file), "--cluster-id", cluster_id),
            *("--no-initial-controllers", "--ignore-formatted"),
        )
        node.start()
        assert self.directory_id(node_id) != old
        self._wait_observer(node_id)
        observation.seconds_until(
            lambda: self._command("remove", f"{node_id}:{old}", "--yes"), _CHANGED_S, pause_s=0.2
        )
        self.add(node_id)
        return time.monotonic() - started

    def ids(self) -> set[int]:
        """Return the voters as the leader of the quorum describes them."""
        state = observation.try_quorum(self._leader_address())
        return set(state.log_ends) if state is not None else set()

    def _leader_address(self) -> str:
        return self.cluster.addresses[active_controller(self.cluster)]

    def _endpoint(self, node_id: int) -> str:
        nodes = self.cluster.processes.layout.plan.nodes
        return next(node.controller_address for node in nodes if node.node_id == node_id)

    def _wait(self, node_id: int, *, is_voter: bool) -> None:
        observation.seconds_until(lambda: (node_id in self.ids()) == is_voter, _CHANGED_S)

    def _wait_observer(self, node_id: int) -> None:
        """Wait until the new directory of a node follows the quorum, as an observer."""

        def follows() -> bool:
            state = observation.try_quorum(self._leader_address())
            return state is not None and node_id in state.observers

        observation.seconds_until(follows, _CHANGED_S)

    def _command(self, *arguments: str) -> bool:
        """Run `barnabas cluster voters`; False when the cluster refuses the change for now."""
        done = self._run(
            *("cluster", "voters", *arguments, "--bootstrap", self.cluster.bootstrap), check=False
        )
        return done.returncode == 0

    def _run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "barnabas", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done


def change_voters(cluster: BarnabasCluster, _: float = 0) -> list[Figure]:
    """Step 12: 1 voter, 3, 5, then 3 without the leader, then a voter with a new disk.

    Acknowledged admin operations are in the metadata at the end.
    """
    voters = Voters(cluster)
    with AdminLoad(cluster.bootstrap) as load:
        added = [voters.add(node_id) for node_id in (2, 3, 4, 5)]
        assert voters.ids() == {1, 2, 3, 4, 5}
        leader = active_controller(cluster)
        removed_leader = voters.remove(leader)
        removed = voters.remove(max(voters.ids() - {active_controller(cluster)}))
        assert len(voters.ids()) == 3
        replaced = voters.replace_disk(min(voters.ids() - {active_controller(cluster)}))
        assert len(voters.ids()) == 3
    wrong = load.wrong()
    assert not wrong, wrong[:10]
    assert load.existing
    assert load.deleted
    return [
        Figure("voters: a voter added, longest", "s", max(added)),
        Figure("voters: the leader removed", "s", removed_leader),
        Figure("voters: another voter removed", "s", removed),
        Figure("voters: the disk of a voter replaced", "s", replaced),
        Figure("voters: admin operations acknowledged", "", len(load.ends)),
        Figure("voters: longest gap of admin operations", "s", load.longest_gap()),
    ]


def rotate_voters(cluster: BarnabasCluster, _: float = 0) -> list[Figure]:
    """Step 12 on a cluster of three voters: the leader leaves and returns, a disk is replaced."""
    voters = Voters(cluster)
    before = voters.ids()
    with AdminLoad(cluster.bootstrap) as load:
        leader = active_controller(cluster)
        removed = voters.remove(leader)
        added = voters.add(leader)
        replaced = voters.replace_disk(min(before - {active_controller(cluster)}))
        assert voters.ids() == before
    wrong = load.wrong()
    assert not wrong, wrong[:10]
    return [
        Figure("voters: the leader removed", "s", removed),
        Figure("voters: a voter added, longest", "s", added),
        Figure("voters: the disk of a voter replaced", "s", replaced),
    ]
