"""Values of one listener: a property with the listener's prefix wins over the one without.

The prefixes are `listener.name.<listener>.` and, for some properties of SASL,
`listener.name.<listener>.<mechanism>.`, in lower case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.listeners import listener_property

if TYPE_CHECKING:
    from barnabas.config.node_config import NodeConfig
    from barnabas.config.schema import Value


def listener_value(config: NodeConfig, listener: str, name: str, mechanism: str = "") -> Value:
    """Return the value of a property in effect for a listener, or for one of its mechanisms."""
    names = [listener_property(listener, name)]
    if mechanism:
        names.insert(0, listener_property(listener, name, mechanism))
    for prefixed in names:
        if config.is_set(prefixed):
            return config.get(prefixed)
    return config.get(name)
