"""The helper process: logs to read come as JSON lines on stdin, answers go as such to stdout.

It ends when stdin does, which is when the node does.
"""

import json
import os
import sys

from barnabas.log.helper_limits import OrphanedError, Throttle
from barnabas.log.scrubbing.scrub_check import check_log

_NICE = 15


def main() -> None:
    """Read what is asked for, one log after the other."""
    os.nice(_NICE)
    for line in sys.stdin:
        job = json.loads(line)
        answer: dict[str, object] = {"bytes": 0, "faults": []}
        try:
            throttle = Throttle(job["bytes_per_second"])
            found = list(check_log(job["directory"], throttle, with_active=False))
            answer = {
                "bytes": sum(each.size for each in found),
                "faults": [(each.path, each.fault) for each in found if each.fault is not None],
            }
        except OrphanedError:
            return
        except FileNotFoundError:  # deleted, or moved to another directory
            pass
        except OSError as error:
            answer["faults"] = [(job["directory"], str(error))]
        try:
            os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
