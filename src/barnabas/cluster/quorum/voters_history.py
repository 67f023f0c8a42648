"""The voters and the kraft.version that the quorum's log states, by offset (KIP-853).

The end of the log may state voters that are not committed. A snapshot has the voters at its own
offset, and a truncation restores the earlier ones (Kafka's `KRaftControlRecordStateMachine`).
"""

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control_records import KRaftVersionRecord, VotersRecord


class StatedVoters(NamedTuple):
    """The voters at some offset, and the kraft.version.

    `offset` is that of their record, -1 when only the bootstrap snapshot has them. `previous` are
    the voters before it.
    """

    voters: VoterSet
    kraft_version: int
    offset: int = -1
    previous: VoterSet = VoterSet.of()


@attrs.frozen(slots=True)
class _Stated:
    """The state from the record at `offset` on."""

    offset: int
    state: StatedVoters


class VotersHistory:
    """The voters by offset; `voters` are those at the start of the log, stated at `offset`."""

    def __init__(self, voters: VoterSet, kraft_version: int, offset: int = -1) -> None:
        self._stated = [_Stated(offset, StatedVoters(voters, kraft_version, offset))]

    @property
    def latest(self) -> StatedVoters:
        """The voters at the end of the log."""
        return self._stated[-1].state

    def take(self, control: Iterable[Message], base_offset: int) -> None:
        """Note the control records of a batch."""
        for offset, message in enumerate(control, base_offset):
            latest = self.latest
            if isinstance(message, KRaftVersionRecord):
                state = latest._replace(kraft_version=message.kraft_version)
                self._stated.append(_Stated(offset, state))
            elif isinstance(message, VotersRecord):
                voters = VoterSet.from_record(message)
                version = latest.kraft_version
                state = StatedVoters(voters, version, offset, latest.voters)
                self._stated.append(_Stated(offset, state))

    def truncate(self, offset: int) -> None:
        """Drop the records at `offset` and above."""
        self._stated = [self._stated[0], *(s for s in self._stated[1:] if s.offset < offset)]

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Return the voters and the kraft.version after the records below `end_offset`."""
        found = self._stated[0]
        for stated in self._stated[1:]:
            if stated.offset >= end_offset:
                break
            found = stated
        return found.state.voters, found.state.kraft_version

    def trim(self, end_offset: int) -> None:
        """Drop the history that a snapshot at `end_offset` replaces."""
        earlier = [stated for stated in self._stated[1:] if stated.offset < end_offset]
        later = [stated for stated in self._stated[1:] if stated.offset >= end_offset]
        self._stated = [earlier[-1] if earlier else self._stated[0], *later]
