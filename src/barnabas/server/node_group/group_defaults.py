"""The values that new topics of a group get without settings, kept with the group's directories.

A group of three or more nodes is created with three replicas for each topic. The properties are in
a file beside the nodes' directories, so that a group that was created with other values keeps them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.config import properties_file
from barnabas.log.checkpoints import META_PROPERTIES
from barnabas.log.file_operations import replace_file

FILE_NAME: Final = "group.properties"
REPLICATION_FACTOR: Final = "default.replication.factor"
_REPLICAS: Final = 3
_HEADER: Final = "# The values of new topics since 'barnabas serve --nodes' created this cluster.\n"


def replicated_topics(nodes: int) -> dict[str, str]:
    """Return the properties of topics that survive a node; none for fewer nodes than three."""
    if nodes < _REPLICAS:
        return {}
    return {REPLICATION_FACTOR: str(_REPLICAS), "min.insync.replicas": "2"}


def topic_defaults(data: Path, nodes: int) -> dict[str, str]:
    """Return the values of a group in `data`: those of a new one, or those it was created with.

    Raises ConfigError when the file is not a properties file.
    """
    file = data / FILE_NAME
    if file.exists():
        return properties_file.read(file)
    is_formatted = any(data.glob(f"node-*/{META_PROPERTIES}"))
    return {} if is_formatted else replicated_topics(nodes)


def keep_topic_defaults(data: Path, defaults: Mapping[str, str]) -> None:
    """Write the values of a new group. Raises OSError."""
    lines = (f"{name}={value}\n" for name, value in defaults.items())
    data.mkdir(parents=True, exist_ok=True)
    replace_file(data / FILE_NAME, (_HEADER + "".join(lines)).encode())


def hint(nodes: int, properties: Mapping[str, str]) -> str | None:
    """Return how to give new topics three replicas; None when the properties state a number."""
    if nodes < _REPLICAS or REPLICATION_FACTOR in properties:
        return None
    return (
        "This cluster was created with one replica for new topics: a topic does not survive its "
        f"node. To change it, start with --set {REPLICATION_FACTOR}=3, then run 'barnabas cluster "
        "reassign --to 1,2,3 --replicas 3' and 'barnabas topic alter TOPIC --set "
        "min.insync.replicas=2'."
    )
