"""A process that keeps a view, for tests that kill it: `view_process BOOTSTRAP TOPIC FILE`."""

import sys
from pathlib import Path

from barnabas.pipeline.streams.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.streams.views.view_codecs import CODECS


def main(bootstrap: str, topic: str, file: str) -> None:
    """Keep the view until the process is killed; say when it was read once."""
    spec = ViewSpec(topic, Path(file), CODECS["string"], CODECS["long"])
    with LiveView.open(spec, {"bootstrap.servers": bootstrap}) as view:
        view.wait_built()
        print("built", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
