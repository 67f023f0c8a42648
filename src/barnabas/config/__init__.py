"""Configuration: every property declared once, and everything that reads the table.

`properties` is the table; `schema` defines its rows and parses their text. The node works with
`NodeConfig` (a file and `--set` over the defaults) and `TopicConfig` (a topic's overrides over its
broker's values). `config_description` answers DescribeConfigs, `config_alteration` validates
AlterConfigs, `unsupported` finds what a configuration promises and the server cannot keep,
`subscriptions` calls observers of dynamic values, and `python -m barnabas.config` prints
docs/configuration.md. Text comes in, validated values go out. This room must not import the
network or the log.
"""

from barnabas.config.listeners import Listener
from barnabas.config.node_config import NodeConfig
from barnabas.config.properties import BROKER_PROPERTIES, TOPIC_PROPERTIES
from barnabas.config.schema import (
    ConfigError,
    Dynamic,
    Importance,
    Property,
    Source,
    Type,
    boolean_of,
)
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
    "boolean_of",
    "validate_topic_overrides",
]
