"""The helper process: jobs come as JSON lines on stdin, messages go as JSON lines to stdout.

It ends when stdin does, which is when the node does.
"""

import errno
import json
import os
import sys
import traceback

from barnabas.log.compaction.cleaner import MapTooSmallError, clean
from barnabas.log.compaction.cleaning_job import CleanJob
from barnabas.log.helper_limits import OrphanedError
from barnabas.protocol.batches.batch_header import CorruptBatch

_NICE = 10


def main() -> None:
    """Clean what is asked for, one log after the other."""
    os.nice(_NICE)
    for line in sys.stdin:
        try:
            for message in clean(CleanJob.from_json(json.loads(line))):
                _say(message)
        except (OrphanedError, BrokenPipeError):
            return
        except (CorruptBatch, MapTooSmallError, OSError) as error:
            _say({"error": str(error), "errno": getattr(error, "errno", None)})
        except MemoryError:
            _say({"error": "out of memory", "errno": errno.ENOMEM})
        except Exception as error:  # of this log: the others are cleaned all the same
            traceback.print_exc()
            _say({"error": repr(error), "errno": None})


def _say(message: dict[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:  # not by way of sys.stdout, which would complain at the end of a node that is gone
        line = line[os.write(sys.stdout.fileno(), line) :]


if __name__ == "__main__":
    main()
