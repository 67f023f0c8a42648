"""The requests between replicas when a peer serves older versions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from barnabas.client import Address
from barnabas.clock import Clock
from barnabas.cluster.metadata.image import METADATA_TOPIC_ID, Endpoint
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_messages import FetchRequest, VoteRequest
from barnabas.cluster.quorum.voter_upkeep import UpkeepRequest
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest as FetchMessage
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.protocol.messages.vote import VoteResponse as VoteAnswer
from barnabas.protocol.messages_base import Message
from barnabas.server.quorum.raft_peers import PeerSettings, RaftPeers
from tests.client.harness import FakeBroker, eventually, run
from tests.cluster.states import CLUSTER_ID, uuid

LEADER_ID, OWN_ID = 1, 4


class Core:
    """The part of a Raft core that the connections read, and the calls that they make."""

    def __init__(self) -> None:
        self.leader_id = LEADER_ID
        self.local = Voter(ReplicaKey(OWN_ID, uuid(OWN_ID)), (Endpoint("CONTROLLER", "h", 1),))
        self.voters = VoterSet.of(Voter(ReplicaKey(LEADER_ID, uuid(LEADER_ID))))
        self.calls: list[str] = []
        self.epoch = 3
        self.snapshot_in_progress: OffsetAndEpoch | None = None

    def on_epoch(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        self.epoch, self.leader_id, self.snapshot_in_progress = epoch, leader_id, None

    def on_request_failed(self, message: Any, now_ms: int) -> None:
        self.calls.append("failed")

    def on_vote_response(self, response: Any, now_ms: int) -> None:
        self.calls.append("granted" if response.granted else "refused")


class Addresses:
    """Knows one address, of each replica."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def of_node(self, node_id: int) -> Address:
        return self._address

    def bootstrap(self) -> list[Address]:
        return [self._address]

    def learn(self, *stated: Any) -> None:
        pass


class Shell:
    """Wants to fetch always, or never."""

    high_watermark = 0

    malformed_responses = 0

    def __init__(self, fetch: FetchRequest | None) -> None:
        self._fetch = fetch
        self.is_woken = False

    def fetch_request(self) -> FetchRequest | None:
        return self._fetch

    def fetched(self, request: FetchRequest, response: Any, records: bytes) -> None:
        self.malformed_responses += 1

    def wake(self) -> None:
        self.is_woken = True


def serving(ranges: dict[int, tuple[int, int]], answer: Message) -> FakeBroker:
    """Return a peer that serves these versions by api key."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in {ApiVersionsRequest.API_KEY: (0, 4), **ranges}.items()
    ]
    return FakeBroker(
        lambda request, _: (
            ApiVersionsResponse(api_keys=keys)
            if isinstance(request, ApiVersionsRequest)
            else answer
        )
    )


def with_peers(
    peer: FakeBroker,
    test: Callable[[RaftPeers], Any],
    fetch: FetchRequest | None = None,
    timeout_s: float = 50.0,
    directory: Path = Path(),
) -> Core:
    """Run a test with the connections of a replica to a peer; return its core."""
    core = Core()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(peer.serve)
            settings = PeerSettings(
                node_id=OWN_ID,
                cluster_id=CLUSTER_ID,
                directory=directory,
                request_timeout_s=timeout_s,
            )
            parts: Any = core, Addresses(peer.address), settings
            unused: Any = None
            peers = RaftPeers(*parts, disk=unused, clock=Clock(lambda: 0, lambda: 0))
            shell: Any = Shell(fetch)
            await nursery.start(peers.run, shell)
            await test(peers)
            nursery.cancel_scope.cancel()

    run(main)
    return core


def join() -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=1000,
        voter_id=OWN_ID,
        voter_directory_id=uuid(OWN_ID),
        ack_when_committed=False,
    )


@pytest.mark.parametrize(("version", "waits_for_commit"), [(0, True), (1, False)])
def test_join_is_sent_in_the_version_of_the_leader(version: int, waits_for_commit: bool) -> None:
    peer = serving({AddRaftVoterRequest.API_KEY: (0, version)}, AddRaftVoterResponse())
    found: list[AddRaftVoterResponse | None] = []

    async def test(peers: RaftPeers) -> None:
        found.append(await peers.send_upkeep(join(), AddRaftVoterResponse))

    with_peers(peer, test)
    assert found == [AddRaftVoterResponse()]
    sent = peer.requests[-1]
    assert isinstance(sent, AddRaftVoterRequest)
    assert sent.ack_when_committed is waits_for_commit


def test_upkeep_that_cannot_be_encoded_is_not_sent() -> None:
    peer = serving({UpdateRaftVoterRequest.API_KEY: (0, 0)}, UpdateRaftVoterResponse())
    request: UpkeepRequest = UpdateRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=1 << 40)
    found: list[UpdateRaftVoterResponse | None] = []

    async def test(peers: RaftPeers) -> None:
        found.append(await peers.send_upkeep(request, UpdateRaftVoterResponse))

    with_peers(peer, test)
    assert found == [None]


def test_connection_without_a_response_in_time_is_left() -> None:
    """As after a cut of the network that has healed: only a new connection gets answers."""

    def answer(request: Message, _: int) -> Message | None:
        is_join = isinstance(request, AddRaftVoterRequest)
        return AddRaftVoterResponse() if is_join and peer.connections > 1 else None

    peer = FakeBroker(answer)

    async def test(peers: RaftPeers) -> None:
        while await peers.send_upkeep(join(), AddRaftVoterResponse) is None:
            pass  # on a busy machine, an answer on a new connection may be late, too

    with_peers(peer, test, timeout_s=0.5)
    assert peer.connections >= 2


@pytest.mark.parametrize(
    ("pre_vote", "epoch", "call"), [(True, 3, "granted"), (False, 1 << 40, "failed")]
)
def test_vote_request_that_cannot_be_encoded_is_passed_to_the_core(
    pre_vote: bool, epoch: int, call: str
) -> None:
    """A voter without pre-votes counts as one that grants them."""
    peer = serving({VoteAnswer.API_KEY: (0, 1)}, VoteAnswer())
    message = VoteRequest(LEADER_ID, epoch, ReplicaKey(OWN_ID, uuid(OWN_ID)), 0, 0, pre_vote)

    async def test(peers: RaftPeers) -> None:
        core: Any = peers._core
        peers.send(message)
        await eventually(lambda: bool(core.calls))
        await trio.testing.wait_all_tasks_blocked(0.1)

    assert with_peers(peer, test).calls == [call]


def fetches(peer: FakeBroker) -> int:
    return sum(isinstance(each, FetchMessage) for each in peer.requests)


def test_refused_fetch_is_repeated_and_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    refusal = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    peer = serving({FetchMessage.API_KEY: (4, 17)}, refusal)

    async def test(peers: RaftPeers) -> None:
        await trio.sleep(0.8)
        with trio.fail_after(60):
            while fetches(peer) < 2:  # noqa: ASYNC110 (a busy machine may be slow)
                await trio.sleep(0.01)

    fetch = FetchRequest(LEADER_ID, 3, ReplicaKey(OWN_ID, uuid(OWN_ID)), 0, 0)
    with_peers(peer, test, fetch)
    assert 2 <= fetches(peer) <= 6
    assert caplog.text.count("quorum request refused request=Fetch") == 1


def test_fetch_after_malformed_responses_waits_longer_each_time() -> None:
    """Planted once: such a response was fetched again at once, thousands of times a second."""
    data = FetchResponse.PartitionData(
        partition_index=0,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=LEADER_ID, leader_epoch=3),
        records=b"no batch",
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    peer = serving({FetchMessage.API_KEY: (4, 17)}, FetchResponse(responses=[topic]))

    async def test(peers: RaftPeers) -> None:
        await trio.sleep(0.8)
        with trio.fail_after(60):
            while fetches(peer) < 2:  # noqa: ASYNC110 (a busy machine may be slow)
                await trio.sleep(0.01)

    fetch = FetchRequest(LEADER_ID, 3, ReplicaKey(OWN_ID, uuid(OWN_ID)), 0, 0)
    with_peers(peer, test, fetch)
    assert 2 <= fetches(peer) <= 6


def test_refused_snapshot_of_an_earlier_epoch_wakes_the_replica(tmp_path: Path) -> None:
    """It follows another leader now, and would not fetch from it otherwise."""
    leader = FetchSnapshotResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
    part = FetchSnapshotResponse.PartitionSnapshot(
        error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader, unaligned_records=b""
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name="__cluster_metadata", partitions=[part])
    peer = serving({FetchSnapshotResponse.API_KEY: (0, 1)}, FetchSnapshotResponse(topics=[topic]))
    snapshot = OffsetAndEpoch(10, 3)

    async def test(peers: RaftPeers) -> None:
        core: Any = peers._core
        shell: Any = peers._shell
        core.snapshot_in_progress = snapshot
        peers.fetch_snapshot(snapshot)
        await eventually(lambda: core.epoch == 4)
        await eventually(lambda: shell.is_woken)

    with_peers(peer, test, directory=tmp_path)
