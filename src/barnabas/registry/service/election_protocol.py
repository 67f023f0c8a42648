"""The members' side of the leader election, in the form that all schema registries share.

Instances are members of a classic group of protocol type ``sr``, protocol ``v0``. A member's
metadata is its address as JSON; the group's leader assigns to every member the address of the one
that appends: the present one, as long as it is a member, or else the eligible member with the
smallest URL. A URL that two members have is passed over: one of them may be the dead predecessor of
the other. When no other is left, that is an error and there is no leader.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from barnabas.registry.core.json_fields import JsonFields, MalformedJsonError, write_json

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"

_VERSION = 1
_NO_ERROR = 0
_DUPLICATE_URLS = 1


@attrs.frozen(order=True)
class InstanceAddress:
    """The address at which other instances reach a registry."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """Return the base of the instance's URLs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@attrs.frozen
class InstanceIdentity:
    """The metadata of a member."""

    address: InstanceAddress
    is_eligible: bool = True
    is_leader: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the metadata."""
        return write_json(self._fields()).encode()

    def _fields(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "host": self.address.host,
            "port": self.address.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.address.scheme,
            "leader": self.is_leader,
        }

    @classmethod
    def decoded(cls, data: bytes) -> "InstanceIdentity":
        """Return the identity of a member's metadata.

        Raises MalformedJsonError when it is not of the expected form.
        """
        return cls._of(JsonFields(_json(data), "member metadata"))

    @classmethod
    def _of(cls, fields: JsonFields) -> "InstanceIdentity":
        host, port = fields.text("host"), fields.integer("port")
        if not host or port is None:
            raise MalformedJsonError("member metadata: host and port are missing")
        return cls(
            InstanceAddress(fields.text("scheme") or "http", host, port),
            fields.flag("master_eligibility") is not False,
            fields.flag("leader") or False,
        )


@attrs.frozen
class LeaderAssignment:
    """The assignment that each member gets: who leads, or None."""

    leader: InstanceIdentity | None
    member_id: str | None = None
    error: int = _NO_ERROR

    def encoded(self) -> bytes:
        """Return the bytes of the assignment."""
        identity = None if self.leader is None else json.loads(self.leader.encoded())
        fields = {
            "version": _VERSION,
            "error": self.error,
            "master": self.member_id,
            "master_identity": identity,
        }
        return write_json(fields).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "LeaderAssignment":
        """Return the assignment of its bytes.

        Raises MalformedJsonError when they are not of the expected form.
        """
        fields = JsonFields(_json(data), "assignment")
        leader = fields.inner("master_identity", InstanceIdentity._of)
        return cls(leader, fields.text("master"), fields.integer("error") or _NO_ERROR)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise MalformedJsonError(str(error)) from None


def chosen_leader(members: Mapping[str, bytes]) -> LeaderAssignment:
    """Return who leads, from the metadata of all members by their id."""
    found: dict[str, InstanceIdentity] = {}
    for member_id, metadata in members.items():
        try:
            found[member_id] = InstanceIdentity.decoded(metadata)
        except MalformedJsonError:
            continue
    holders = Counter(identity.address.url for identity in found.values())
    eligible = [
        (not identity.is_leader, identity.address.url, member_id)
        for member_id, identity in found.items()
        if identity.is_eligible and holders[identity.address.url] == 1
    ]
    if not eligible:
        has_duplicates = len(holders) < len(found)
        return LeaderAssignment(None, error=_DUPLICATE_URLS if has_duplicates else _NO_ERROR)
    _, _, member_id = min(eligible)
    return LeaderAssignment(found[member_id], member_id)


class ElectionProtocol:
    """The group protocol of one instance."""

    def __init__(self, identity: InstanceIdentity) -> None:
        self.identity = identity

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the protocol with this member's metadata."""
        return [(PROTOCOL_NAME, self.identity.encoded())]

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return every member's assignment: the same for all."""
        assignment = chosen_leader(members).encoded()
        return dict.fromkeys(members, assignment)
