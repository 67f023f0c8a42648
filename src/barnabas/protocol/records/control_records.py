"""Messages in control records, which consumers do not see."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, struct, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class EndTxnMarker(Message, versions="0"):
    """The value of a control record that ends a transaction in a partition."""

    coordinator_epoch: int = int32()


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The control record that starts the epoch of a new quorum leader."""

    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid(versions="1+")

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessage.Voter] = array("Voter")
    granting_voters: list[LeaderChangeMessage.Voter] = array("Voter")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The first control record of a snapshot."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The last control record of a snapshot; a file without it is truncated."""

    version: int = int16()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The control record that finalizes kraft.version."""

    version: int = int16()
    kraft_version: int = int16()


class VotersRecord(Message, versions="0", flexible="0+"):
    """The control record that lists all voters of the quorum."""

    class Endpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid()
        endpoints: list[VotersRecord.Endpoint] = array("Endpoint")
        kraft_version_feature: VotersRecord.KRaftVersionFeature = struct("KRaftVersionFeature")

    version: int = int16()
    voters: list[VotersRecord.Voter] = array("Voter")


class ControlRecordTypeSchema(Message, versions="0"):
    """The type in the key of a control record."""

    type: int = int16()
