"""An operator of the simulation that upgrades kraft.version: static voters become dynamic ones.

The leader needs the directories of all voters, which report themselves to each new leader.

KV: at the end every node has the new version, and knows the directory of each voter.
"""

from typing import Any, Final

from barnabas.cluster.metadata.feature_levels import KRAFT_VERSION, KRAFT_VERSION_LATEST
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.testing.simulation.controller_client import ControllerClient
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_CLIENT_ID: Final = 37_000
_UPGRADE: Final = 1
_FIRST_MS, _RETRY_MS = 10_000, 1_000


class KraftUpgrade:
    """Requests the upgrade until it is done, also after the faults."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._process = Process(cluster.world, _CLIENT_ID)
        self._process.start()
        self._random = cluster.world.stream("kraft upgrade")
        self._controller = ControllerClient(cluster, self._process, self._random)
        self.refusals = 0

    def start(self) -> None:
        """Begin at some time among the faults."""
        self._process.after_ms(self._random.randrange(_FIRST_MS), self._submit)

    def stop(self) -> None:
        """Nothing ends here: an upgrade that is not done yet is requested again."""

    def _submit(self) -> None:
        request = UpdateFeaturesRequest
        update = request.FeatureUpdateKey(
            feature=KRAFT_VERSION, max_version_level=KRAFT_VERSION_LATEST, upgrade_type=_UPGRADE
        )
        self._controller.submit(request(feature_updates=[update]), self._answered)

    def _answered(self, response: Any) -> None:
        if response is None or response.error_code != ErrorCode.NONE:
            self.refusals += response is not None
            self._process.after_ms(_RETRY_MS, self._submit)

    def check_end(self) -> None:
        """Check KV."""
        for node in self._cluster.nodes.values():
            core = node.core
            what = f"{node.process} has kraft.version {core.kraft_version}"
            require(core.kraft_version == KRAFT_VERSION_LATEST, "KV", what)
            for voter in core.voters:
                found = self._cluster.nodes[voter.key.id].quorum_key
                what = f"{node.process} knows the voter {voter.key} as {found}"
                require(voter.key == found, "KV", what)
