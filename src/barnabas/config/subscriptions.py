"""Observers of dynamic values: parts of the node that act when AlterConfigs changes a property.

The quorum's publisher calls `publish` with each new `NodeConfig`. An observer is called with the
new configuration when the value of one of its properties differs from the value before. A part
that reads `current` each time it needs a value does not have to subscribe.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.node_config import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.config.node_config import NodeConfig

logger = logging.getLogger(__name__)


class _Subscription(NamedTuple):
    names: frozenset[str]
    observer: Callable[[NodeConfig], None]


class ConfigSubscriptions:
    """The node's current configuration and the observers of its changes."""

    def __init__(self, config: NodeConfig) -> None:
        self.current = config
        self._subscriptions: list[_Subscription] = []
        self._touch_observers: list[Callable[[NodeConfig], None]] = []

    def subscribe(self, names: Iterable[str], observer: Callable[[NodeConfig], None]) -> None:
        """Call `observer` whenever the value of one of these properties changes.

        Raises KeyError when a name is not a broker property.
        """
        known = frozenset(names)
        for name in known:
            if lookup(name) is None:
                raise KeyError(name)
        self._subscriptions.append(_Subscription(known, observer))

    def unsubscribe(self, observer: Callable[[NodeConfig], None]) -> None:
        """Remove an observer; do nothing when it is not subscribed."""
        self._subscriptions = [kept for kept in self._subscriptions if kept.observer != observer]

    def when_touched(self, observer: Callable[[NodeConfig], None]) -> None:
        """Call `observer` when this broker's own properties are set, also to the same values."""
        self._touch_observers.append(observer)

    def touch(self) -> None:
        """Call the observers of `when_touched`."""
        for observer in self._touch_observers:
            observer(self.current)

    def publish(self, config: NodeConfig) -> None:
        """Replace the current configuration and call the observers of what changed.

        An observer that raises is logged; the others are called all the same.
        """
        before, self.current = self.current, config
        for names, observer in list(self._subscriptions):
            changed = sorted(name for name in names if before.get(name) != config.get(name))
            if not changed:
                continue
            try:
                observer(config)
            except Exception:
                logger.exception("cannot apply changed configuration properties=%s", changed)
