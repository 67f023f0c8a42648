"""MirrorMaker 2's three connectors: what they accept, and the refusals."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

from barnabas import __version__
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ParsedValue
from barnabas.pipeline.mirror.flow_connector import BOOTSTRAP, WITHOUT_EFFECT
from barnabas.pipeline.mirror.mirrormaker.connector_properties import (
    CHECKPOINT_DEFINITION,
    HEARTBEAT_DEFINITION,
    SOURCE_DEFINITION,
)
from barnabas.pipeline.mirror.mirrormaker.maker_settings import (
    checkpoint_settings,
    heartbeat_settings,
    source_settings,
    unsupported,
)

_RUNNER: Final = {BOOTSTRAP: "127.0.0.1:9092"}
"""Stands for the runner's cluster while a configuration is checked."""


class _MirrorMakerConnector:
    """The part that the three connectors have in common."""

    version = __version__
    without_effect: ClassVar[Mapping[str, str]] = WITHOUT_EFFECT
    definition: ClassVar[ConfigDef]
    settings: ClassVar[Callable[[Mapping[str, str], Mapping[str, str]], object]]
    """Makes the settings of the job, of the connector's properties and of the runner's clients."""

    def config(self) -> ConfigDef:
        """Return the definition of the connector's own properties."""
        return self.definition

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Return the properties with values that barnabas does not support."""
        return unsupported(values)

    def task_configs(self, props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """Return one task: the engine divides the partitions among its own.

        Raises ConfigValueError for properties that do not fit together.
        """
        del max_tasks
        type(self).settings(props, _RUNNER)
        return [dict(props)]


class MirrorSourceConnector(_MirrorMakerConnector):
    """Copies topics; a flow with assigned offsets."""

    definition = SOURCE_DEFINITION
    settings = staticmethod(source_settings)


class MirrorCheckpointConnector(_MirrorMakerConnector):
    """Writes checkpoints of groups, and offsets of groups."""

    definition = CHECKPOINT_DEFINITION
    settings = staticmethod(checkpoint_settings)


class MirrorHeartbeatConnector(_MirrorMakerConnector):
    """Writes heartbeats."""

    definition = HEARTBEAT_DEFINITION
    settings = staticmethod(heartbeat_settings)
