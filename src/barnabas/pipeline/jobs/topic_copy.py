"""The connector of jobs that copy records from topics to topics, through transformations."""

from collections.abc import Mapping
from typing import ClassVar

from barnabas import __version__
from barnabas.pipeline.connect.unused_properties import NO_SLICES, SLICE
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance, Width
from barnabas.pipeline.definitions.config_types import ConfigType
from barnabas.pipeline.jobs.job_config import TARGET_TOPIC


class TopicCopyConnector:
    """Describes a copy; the engine runs it without a sink task."""

    version = __version__
    without_effect: ClassVar[Mapping[str, str]] = {SLICE: NO_SLICES}

    def config(self) -> ConfigDef:
        """Return the definition of the connector's own properties."""
        return ConfigDef(
            [
                ConfigKey(
                    TARGET_TOPIC,
                    ConfigType.STRING,
                    None,
                    Importance.HIGH,
                    "The topic to write to. Without it, a transformation must change the topic of "
                    "every record.",
                    group="Copy",
                    order_in_group=1,
                    width=Width.LONG,
                    display_name="Target topic",
                )
            ]
        )

    def task_configs(self, props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """Return one task: the engine divides the partitions among its own."""
        del max_tasks
        return [dict(props)]
