"""The settings of consumer groups: the broker's, and those of single groups."""

from collections.abc import Mapping

from barnabas.cluster.metadata.image import RESOURCE_GROUP, MetadataImage
from barnabas.coordinator.groups.group_settings import GroupSettings


class GroupConfigs:
    """Settings by group: the properties of its GROUP resource before the broker's.

    Both may change while the coordinator runs; `update` takes the newest. Times are milliseconds.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self._configs: Mapping[tuple[int, str], Mapping[str, str]] = {}

    def update(self, image: MetadataImage, settings: GroupSettings) -> None:
        """Take the properties of a metadata image and the broker's."""
        self._configs = image.configs
        self.settings = settings

    def session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member may go without a heartbeat."""
        return self._value(
            group_id, "consumer.session.timeout.ms", self.settings.consumer_session_timeout_ms
        )

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval of heartbeats that responses give to members."""
        return self._value(
            group_id, "consumer.heartbeat.interval.ms", self.settings.consumer_heartbeat_interval_ms
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time between two targets of the group."""
        return self._value(
            group_id,
            "consumer.assignment.interval.ms",
            self.settings.consumer_assignment_interval_ms,
        )

    def _value(self, group_id: str, name: str, default: int) -> int:
        own = self._configs.get((RESOURCE_GROUP, group_id))
        return default if own is None or name not in own else int(own[name])
