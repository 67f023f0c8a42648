"""The parts of the node that its quorum uses, and the timeouts and sizes of the quorum."""

from typing import TYPE_CHECKING

import attrs

from barnabas.clock import Clock
from barnabas.cluster.broker.broker_lifecycle import LifecycleTimeouts
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.raft_state import Timeouts
from barnabas.config import NodeConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.server.peer_security import Secured, plain
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.raft_peers import PeerSettings

if TYPE_CHECKING:
    from barnabas.log import LogManager
    from barnabas.security.standard_authorizer import StandardAuthorizer
    from barnabas.server.storage.disk_threads import DiskThreads


@attrs.frozen(kw_only=True)
class QuorumSetup:
    """The node's part of the quorum's wiring: ids, addresses, settings, disks and clock."""

    node_id: int
    cluster_id: str
    controller_endpoints: tuple[Endpoint, ...]
    broker_endpoints: tuple[Endpoint, ...]
    settings: ConfigSubscriptions
    logs: "LogManager"
    disk: "DiskThreads"
    clock: Clock
    authorizer: "StandardAuthorizer | None" = None
    """It gets the ACLs of the committed metadata before any other part of the node."""
    to_controllers: Secured = plain
    """Adds the security of the controller listeners to connections."""

    @property
    def config(self) -> NodeConfig:
        """The current configuration of the node."""
        return self.settings.current

    def raft_timeouts(self) -> Timeouts:
        """Return the timeouts of elections and fetches."""
        get_ms = self.config.get_int
        return Timeouts(
            election_ms=get_ms("controller.quorum.election.timeout.ms"),
            fetch_ms=get_ms("controller.quorum.fetch.timeout.ms"),
            backoff_max_ms=get_ms("controller.quorum.election.backoff.max.ms"),
            retry_backoff_ms=get_ms("controller.quorum.retry.backoff.ms"),
        )

    def lifecycle_timeouts(self) -> LifecycleTimeouts:
        """Return the timeouts of the broker's registration and heartbeats."""
        get_ms = self.config.get_int
        return LifecycleTimeouts(
            heartbeat_ms=get_ms("broker.heartbeat.interval.ms"),
            session_ms=get_ms("broker.session.timeout.ms"),
            initial_registration_ms=get_ms("initial.broker.registration.timeout.ms"),
        )

    def peer_settings(self, log: MetadataLog) -> PeerSettings:
        """Return what the requests to other voters need."""
        get = self.config.get_int
        return PeerSettings(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            request_timeout_s=get("controller.quorum.request.timeout.ms") / 1000,
            retry_backoff_s=get("controller.quorum.retry.backoff.ms") / 1000,
            fetch_bytes_max=get("controller.quorum.fetch.max.bytes"),
            snapshot_bytes_max=get("controller.quorum.fetch.snapshot.max.bytes"),
            directory=log.directory,
            secured=self.to_controllers,
        )
