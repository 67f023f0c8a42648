"""A process that keeps a view, for tests: `view_process BOOTSTRAP TOPIC FILE [TRANSACTION]`.

With the number of a transaction it kills itself inside of that, when it has stored the position.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from barnabas.pipeline.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_store import ViewStore


def kill_in(transaction: int) -> None:
    """Have the process end inside of a transaction."""
    numbers, move = count(1), ViewStore._move

    def killed(*arguments: Any) -> None:
        move(*arguments)
        if next(numbers) == transaction:
            os.kill(os.getpid(), signal.SIGKILL)

    ViewStore._move = killed


def main(bootstrap: str, topic: str, file: str, transaction: str = "0") -> None:
    """Keep the view until the process is killed; say when it was read once."""
    kill_in(int(transaction))
    spec = ViewSpec(topic, Path(file), CODECS["string"], CODECS["long"])
    with LiveView.open(spec, {"bootstrap.servers": bootstrap}) as view:
        view.wait_built()
        print("built", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
