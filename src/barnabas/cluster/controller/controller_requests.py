"""The requests that the active controller decides."""

from typing import TYPE_CHECKING

import attrs

from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest


@attrs.frozen(slots=True)
class TokenOperation:
    """A request about delegation tokens, and the principal that sends it, as `User:alice`."""

    requester: str
    request: (
        "CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest"
    )


ControllerRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | ElectLeadersRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | UpdateFeaturesRequest
    | ControllerRegistrationRequest
    | BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | AssignReplicasToDirsRequest
    | AllocateProducerIdsRequest
    | AlterPartitionRequest
    | UnregisterBrokerRequest
    | AlterUserScramCredentialsRequest
    | AlterClientQuotasRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | TokenOperation
)
