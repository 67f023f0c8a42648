"""Configuration: every property declared once, and everything that reads the table.

`properties` is the table, `schema` says what a row is and how its text is judged. `NodeConfig`
(a file and `--set` over the defaults) and `TopicConfig` (a topic's overrides over its broker's
values) are what the node works with; `describe` answers DescribeConfigs, `alter` judges what
AlterConfigs asks, `python -m barnabas.config` prints docs/configuration.md. Text comes in,
checked values go out; nothing here knows the network or the log.
"""

from barnabas.config.listeners import Listener
from barnabas.config.node_config import NodeConfig
from barnabas.config.properties import BROKER_PROPERTIES, TOPIC_PROPERTIES
from barnabas.config.schema import ConfigError, Dynamic, Importance, Property, Source, Type
from barnabas.config.topic_config import TopicConfig, validate_topic_overrides

__all__ = [
    "BROKER_PROPERTIES",
    "TOPIC_PROPERTIES",
    "ConfigError",
    "Dynamic",
    "Importance",
    "Listener",
    "NodeConfig",
    "Property",
    "Source",
    "TopicConfig",
    "Type",
    "validate_topic_overrides",
]
