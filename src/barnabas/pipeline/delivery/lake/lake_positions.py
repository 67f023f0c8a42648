"""The positions in the checkpoint of a lake sink, as Spark's logs of batches have them."""

import json
from typing import Final, TypeAlias

from barnabas.pipeline.delivery.lake.lake_version import SmallFiles

PLANNED: Final = "offsets"
"""The log of the batches that have begun: each entry has the offsets after its batch."""
DONE: Final = "commits"
"""The log of the batches that are complete."""
_FIRST_OFFSETS: Final = "sources/0/0"

Offsets: TypeAlias = dict[tuple[str, int], int]


def positions_of(files: SmallFiles, checkpoint: str, log: str) -> Offsets:
    """Return the offsets after the newest batch of a log.

    Before its first batch they are those that Spark found when the checkpoint was new. A query
    begins after the newest batch of `DONE`.
    """
    newest = files.newest(f"{checkpoint}/{log}")
    text = files.read(f"{checkpoint}/{f'{PLANNED}/{newest}' if newest >= 0 else _FIRST_OFFSETS}")
    if text is None:
        return {}
    topics: dict[str, dict[str, int]] = json.loads(text.splitlines()[-1])
    return {
        (name, int(number)): offset
        for name, partitions in topics.items()
        for number, offset in partitions.items()
    }
