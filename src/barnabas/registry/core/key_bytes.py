"""The bytes of keys in the topic.

Compaction compares bytes: a record replaces only those whose key has the same bytes. Other writers
order the fields differently, so one key may be written in several byte strings.
"""

from barnabas.registry.core.topic_records import NoopKey, RecordKey, encode_key


class KeyBytes:
    """Knows each key whose bytes are not those that this registry writes."""

    def __init__(self) -> None:
        self._foreign: dict[RecordKey, set[bytes]] = {}
        self._left: set[RecordKey] = set()

    def note(self, key: RecordKey, written: bytes, *, is_tombstone: bool) -> None:
        """Take in the key of a record of the topic."""
        if isinstance(key, NoopKey):
            return
        is_foreign = written != encode_key(key)
        if is_foreign:
            self._note_foreign(key, written, is_tombstone)
        if is_tombstone and (is_foreign or key in self._foreign):
            self._left.add(key)
        else:
            self._left.discard(key)

    def _note_foreign(self, key: RecordKey, written: bytes, is_tombstone: bool) -> None:
        found = self._foreign.setdefault(key, set())
        if not is_tombstone:
            found.add(written)
            return
        found.discard(written)
        if not found:
            del self._foreign[key]

    def all_of(self, key: RecordKey) -> list[bytes]:
        """Return the bytes under which a record must be written to replace all of its key."""
        return [*sorted(self._foreign.get(key, ())), encode_key(key)]

    def take_left(self) -> list[RecordKey]:
        """Return keys that were deleted under some of their bytes only, once."""
        left = sorted(self._left, key=encode_key)
        self._left.clear()
        return left
