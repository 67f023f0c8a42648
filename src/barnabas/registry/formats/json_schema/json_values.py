"""Equality of JSON values: 1 is 1.0, but not true; the order of an object's keys does not count."""

from typing import Any

from barnabas.registry.formats.json_text import is_array, is_object


def value_key(value: Any) -> Any:
    """Return a hashable key that is equal for equal values."""
    if is_object(value):
        return ("object", frozenset((name, value_key(item)) for name, item in value.items()))
    if is_array(value):
        return ("array", tuple(map(value_key, value)))
    return (isinstance(value, bool), value)


class ValueNumbers:
    """Numbers the values of one text, equal ones alike, each object and array looked at once."""

    def __init__(self) -> None:
        self._by_key: dict[Any, int] = {}
        self._by_id: dict[int, int] = {}

    def of(self, value: Any) -> int:
        """Return the number of a value. The value must live as long as this table."""
        known = self._by_id.get(id(value))
        if known is not None:
            return known
        if is_object(value):
            key: Any = ("object", frozenset((name, self.of(item)) for name, item in value.items()))
        elif is_array(value):
            key = ("array", tuple(map(self.of, value)))
        else:
            return self._by_key.setdefault((isinstance(value, bool), value), len(self._by_key))
        number = self._by_id[id(value)] = self._by_key.setdefault(key, len(self._by_key))
        return number
