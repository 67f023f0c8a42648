"""The table of apis: key, name, versions and listeners of each.

Importing it is cheap: the messages of an api are imported on first access.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.protocol.messages_base import Message

_API_VERSIONS: Final = 18


class ApiKey:
    """One api. Request and response have the same versions and the same first flexible version."""

    def __init__(
        self,
        key: int,
        name: str,
        min_version: int,
        max_version: int,
        flexible: int | None,
        listeners: tuple[str, ...],
        *,
        advertised: tuple[int, int] | None = None,
        latest_unstable: bool = False,
    ) -> None:
        self.key = key
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_version = flexible
        """The first flexible version; None without one."""
        self.listeners = listeners
        """The listener types that serve it: "broker", "controller"."""
        self.advertised = advertised or (min_version, max_version)
        """The lowest and highest version in an ApiVersions response."""
        self.latest_unstable = latest_unstable
        """True when the highest version may still change, so it is not served."""

    def __repr__(self) -> str:
        return f"ApiKey({self.key}, {self.name!r}, {self.min_version}-{self.max_version})"

    @property
    def module_name(self) -> str:
        """The module that declares the messages."""
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()
        return f"barnabas.protocol.messages.{snake}"

    @cached_property
    def request_type(self) -> "type[Message]":
        """The request class."""
        return self._message("Request")

    @cached_property
    def response_type(self) -> "type[Message]":
        """The response class."""
        return self._message("Response")

    def _message(self, suffix: str) -> Any:
        return getattr(import_module(self.module_name), self.name + suffix)

    def is_flexible(self, version: int) -> bool:
        """True when a version has compact lengths and tagged fields."""
        return self.flexible_version is not None and version >= self.flexible_version

    def request_header_version(self, version: int) -> int:
        """Return 2 for flexible versions, otherwise 1."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 for flexible versions, otherwise 0.

        ApiVersions stays at 0: its reader does not know the server's versions yet (KIP-511).
        """
        return 1 if self.is_flexible(version) and self.key != _API_VERSIONS else 0


_BROKER: Final = ("broker",)
_CONTROLLER: Final = ("controller",)
_BOTH: Final = ("broker", "controller")

# Key, name, lowest and highest version, first flexible version, listeners. Produce 0-2 is
# advertised but refused, because librdkafka requires it (KAFKA-18659).
_APIS: Final = (
    ApiKey(0, "Produce", 3, 13, 9, _BROKER, advertised=(0, 13)),
    ApiKey(1, "Fetch", 4, 18, 12, _BOTH),
    ApiKey(2, "ListOffsets", 1, 11, 6, _BROKER),
    ApiKey(3, "Metadata", 0, 13, 9, _BROKER),
    ApiKey(8, "OffsetCommit", 2, 10, 8, _BROKER),
    ApiKey(9, "OffsetFetch", 1, 10, 6, _BROKER),
    ApiKey(10, "FindCoordinator", 0, 6, 3, _BROKER),
    ApiKey(11, "JoinGroup", 0, 9, 6, _BROKER),
    ApiKey(12, "Heartbeat", 0, 4, 4, _BROKER),
    ApiKey(13, "LeaveGroup", 0, 5, 4, _BROKER),
    ApiKey(14, "SyncGroup", 0, 5, 4, _BROKER),
    ApiKey(15, "DescribeGroups", 0, 6, 5, _BROKER),
    ApiKey(16, "ListGroups", 0, 5, 3, _BROKER),
    ApiKey(17, "SaslHandshake", 0, 1, None, _BOTH),
    ApiKey(18, "ApiVersions", 0, 4, 3, _BOTH),
    ApiKey(19, "CreateTopics", 2, 7, 5, _BOTH),
    ApiKey(20, "DeleteTopics", 1, 6, 4, _BOTH),
    ApiKey(21, "DeleteRecords", 0, 2, 2, _BROKER),
    ApiKey(22, "InitProducerId", 0, 6, 2, _BROKER, advertised=(0, 5), latest_unstable=True),
    ApiKey(23, "OffsetForLeaderEpoch", 2, 4, 4, _BROKER),
    ApiKey(24, "AddPartitionsToTxn", 0, 5, 3, _BROKER),
    ApiKey(25, "AddOffsetsToTxn", 0, 4, 3, _BROKER),
    ApiKey(26, "EndTxn", 0, 5, 3, _BROKER),
    ApiKey(27, "WriteTxnMarkers", 1, 2, 1, _BROKER),
    ApiKey(28, "TxnOffsetCommit", 0, 5, 3, _BROKER),
    ApiKey(29, "DescribeAcls", 1, 3, 2, _BOTH),
    ApiKey(30, "CreateAcls", 1, 3, 2, _BOTH),
    ApiKey(31, "DeleteAcls", 1, 3, 2, _BOTH),
    ApiKey(32, "DescribeConfigs", 1, 4, 4, _BOTH),
    ApiKey(33, "AlterConfigs", 0, 2, 2, _BOTH),
    ApiKey(34, "AlterReplicaLogDirs", 1, 2, 2, _BROKER),
    ApiKey(35, "DescribeLogDirs", 1, 5, 2, _BROKER),
    ApiKey(36, "SaslAuthenticate", 0, 2, 2, _BOTH),
    ApiKey(37, "CreatePartitions", 0, 3, 2, _BOTH),
    ApiKey(38, "CreateDelegationToken", 1, 3, 2, _BOTH),
    ApiKey(39, "RenewDelegationToken", 1, 2, 2, _BOTH),
    ApiKey(40, "ExpireDelegationToken", 1, 2, 2, _BOTH),
    ApiKey(41, "DescribeDelegationToken", 1, 3, 2, _BOTH),
    ApiKey(42, "DeleteGroups", 0, 2, 2, _BROKER),
    ApiKey(43, "ElectLeaders", 0, 2, 2, _BOTH),
    ApiKey(44, "IncrementalAlterConfigs", 0, 1, 1, _BOTH),
    ApiKey(45, "AlterPartitionReassignments", 0, 1, 0, _BOTH),
    ApiKey(46, "ListPartitionReassignments", 0, 0, 0, _BOTH),
    ApiKey(47, "OffsetDelete", 0, 0, None, _BROKER),
    ApiKey(48, "DescribeClientQuotas", 0, 1, 1, _BROKER),
    ApiKey(49, "AlterClientQuotas", 0, 1, 1, _BOTH),
    ApiKey(50, "DescribeUserScramCredentials", 0, 0, 0, _BOTH),
    ApiKey(51, "AlterUserScramCredentials", 0, 0, 0, _BOTH),
    ApiKey(52, "Vote", 0, 2, 0, _CONTROLLER),
    ApiKey(53, "BeginQuorumEpoch", 0, 1, 1, _CONTROLLER),
    ApiKey(54, "EndQuorumEpoch", 0, 1, 1, _CONTROLLER),
    ApiKey(55, "DescribeQuorum", 0, 2, 0, _BOTH),
    ApiKey(56, "AlterPartition", 2, 3, 2, _CONTROLLER),
    ApiKey(57, "UpdateFeatures", 0, 2, 0, _BOTH),
    ApiKey(58, "Envelope", 0, 0, 0, _CONTROLLER),
    ApiKey(59, "FetchSnapshot", 0, 1, 0, _CONTROLLER),
    ApiKey(60, "DescribeCluster", 0, 2, 0, _BOTH),
    ApiKey(61, "DescribeProducers", 0, 0, 0, _BROKER),
    ApiKey(62, "BrokerRegistration", 0, 4, 0, _CONTROLLER),
    ApiKey(63, "BrokerHeartbeat", 0, 2, 0, _CONTROLLER),
    ApiKey(64, "UnregisterBroker", 0, 0, 0, _BOTH),
    ApiKey(65, "DescribeTransactions", 0, 0, 0, _BROKER),
    ApiKey(66, "ListTransactions", 0, 2, 0, _BROKER),
    ApiKey(67, "AllocateProducerIds", 0, 0, 0, _CONTROLLER),
    ApiKey(68, "ConsumerGroupHeartbeat", 0, 1, 0, _BROKER),
    ApiKey(69, "ConsumerGroupDescribe", 0, 1, 0, _BROKER),
    ApiKey(70, "ControllerRegistration", 0, 0, 0, _CONTROLLER),
    ApiKey(71, "GetTelemetrySubscriptions", 0, 0, 0, _BROKER),
    ApiKey(72, "PushTelemetry", 0, 0, 0, _BROKER),
    ApiKey(73, "AssignReplicasToDirs", 0, 0, 0, _CONTROLLER),
    ApiKey(74, "ListConfigResources", 0, 1, 0, _BROKER),
    ApiKey(75, "DescribeTopicPartitions", 0, 0, 0, _BROKER),
    ApiKey(76, "ShareGroupHeartbeat", 1, 1, 1, _BROKER),
    ApiKey(77, "ShareGroupDescribe", 1, 1, 1, _BROKER),
    ApiKey(78, "ShareFetch", 1, 2, 1, _BROKER),
    ApiKey(79, "ShareAcknowledge", 1, 2, 1, _BROKER),
    ApiKey(80, "AddRaftVoter", 0, 1, 0, _BOTH),
    ApiKey(81, "RemoveRaftVoter", 0, 0, 0, _BOTH),
    ApiKey(82, "UpdateRaftVoter", 0, 0, 0, _CONTROLLER),
    ApiKey(83, "InitializeShareGroupState", 0, 0, 0, _BROKER),
    ApiKey(84, "ReadShareGroupState", 0, 0, 0, _BROKER),
    ApiKey(85, "WriteShareGroupState", 0, 1, 0, _BROKER),
    ApiKey(86, "DeleteShareGroupState", 0, 0, 0, _BROKER),
    ApiKey(87, "ReadShareGroupStateSummary", 0, 1, 0, _BROKER),
    ApiKey(88, "StreamsGroupHeartbeat", 0, 0, 0, _BROKER),
    ApiKey(89, "StreamsGroupDescribe", 0, 0, 0, _BROKER),
    ApiKey(90, "DescribeShareGroupOffsets", 0, 1, 0, _BROKER),
    ApiKey(91, "AlterShareGroupOffsets", 0, 0, 0, _BROKER),
    ApiKey(92, "DeleteShareGroupOffsets", 0, 0, 0, _BROKER),
)

API: Final[Mapping[int, ApiKey]] = {api.key: api for api in _APIS}
"""All apis of Kafka 4.3, by key."""

_BY_NAME: Final = {api.name: api for api in _APIS}


def api_by_name(name: str) -> ApiKey:
    """Return the api with `name`, such as "Produce".

    Raises KeyError when there is none.
    """
    return _BY_NAME[name]


FORWARDABLE: Final = frozenset(
    {
        19,  # CreateTopics
        20,  # DeleteTopics
        30,  # CreateAcls
        31,  # DeleteAcls
        33,  # AlterConfigs
        37,  # CreatePartitions
        38,  # CreateDelegationToken
        39,  # RenewDelegationToken
        40,  # ExpireDelegationToken
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        49,  # AlterClientQuotas
        51,  # AlterUserScramCredentials
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        64,  # UnregisterBroker
        67,  # AllocateProducerIds
        80,  # AddRaftVoter
        81,  # RemoveRaftVoter
    }
)
"""The apis that a broker may forward to the controller (`ApiKeys.forwardable`)."""
