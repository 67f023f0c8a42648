"""The properties of barnabas's engine that have no effect on a connector.

A configuration that sets one is refused: the job would not do what the property says. A connector's
class names its own in `without_effect`, each with the reason; other connectors have those of their
kind.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.pipeline.connect.plugin_registry import PluginKind
from barnabas.pipeline.definitions.config_types import ConfigValueError

DELIVERY: Final = "delivery"
ON_TRIM: Final = "on.trim"
SLICE: Final = "slice.ms"

EXACTLY_ONCE_ONLY: Final = "it delivers exactly once"
NO_TOPICS: Final = "it reads no topics"
NO_SLICES: Final = "it has batches; set trigger.ms or batch.records.max"

_OF_KIND: Final[Mapping[PluginKind, Mapping[str, str]]] = {
    PluginKind.SOURCE: {DELIVERY: EXACTLY_ONCE_ONLY, ON_TRIM: NO_TOPICS},
    PluginKind.SINK: {DELIVERY: EXACTLY_ONCE_ONLY, SLICE: NO_SLICES},
}
_WHAT_ALL_DO: Final = {DELIVERY: "exactly-once"}
"""Values that say what a connector does anyway."""


def unused_properties(
    connector: type[Any], kind: PluginKind, config: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    """Yield each property of a configuration that has no effect, with an error message."""
    reasons: Mapping[str, str] = getattr(connector, "without_effect", _OF_KIND[kind])
    for name, reason in reasons.items():
        value = config.get(name)
        if value is not None and value != _WHAT_ALL_DO.get(name):
            text = f"It has no effect on {connector.__name__}: {reason}"
            yield name, str(ConfigValueError.of(name, value, text))
