"""The helper process: jobs come as JSON lines on stdin, messages go as JSON lines to stdout.

It ends when stdin does, which is when the node does.
"""

import json
import os
import sys

from barnabas.log.compaction.cleaner import CleanJob, OrphanedError, clean
from barnabas.protocol.records.batch import CorruptBatch

_NICE = 10


def main() -> None:
    """Clean what is asked for, one log after the other."""
    os.nice(_NICE)
    for line in sys.stdin:
        try:
            for message in clean(CleanJob.from_json(json.loads(line))):
                _say(message)
        except (CorruptBatch, OSError) as error:
            _say({"error": str(error), "errno": getattr(error, "errno", None)})
        except OrphanedError:
            return


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
