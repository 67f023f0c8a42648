"""The producers that a worker process keeps from one task to the next."""

import abc
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from barnabas.pipeline.delivery.writing.record_producer import RecordProducer

_PRODUCERS_MAX: Final = 64

P = TypeVar("P", bound=RecordProducer)


class KeptProducers(abc.ABC, Generic[P]):
    """Producers by name and generation of the job; the least recently used are forgotten."""

    def __init__(self, limit: int = _PRODUCERS_MAX) -> None:
        self._producers: OrderedDict[tuple[str, int], P] = OrderedDict()
        self._limit = limit

    def get(self, name: str, generation: int, properties: Mapping[str, Any]) -> P:
        """Return the producer of a name, made when the cache lacks it."""
        key = (name, generation)
        producer = self._producers.get(key)
        if producer is None:
            producer = self._producers[key] = self._create(name, properties)
            while len(self._producers) > self._limit:
                self._producers.popitem(last=False)
        self._producers.move_to_end(key)
        return producer

    def discard(self, name: str, generation: int) -> P | None:
        """Forget the producer of a name, and return it."""
        return self._producers.pop((name, generation), None)

    def clear(self) -> None:
        """Forget all producers."""
        self._producers.clear()

    @abc.abstractmethod
    def _create(self, name: str, properties: Mapping[str, Any]) -> P:
        """Return a new producer."""
