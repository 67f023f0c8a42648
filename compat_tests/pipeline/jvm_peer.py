"""A program of Java in one JVM, which answers lines of JSON."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests import jars


class JvmPeer:
    """The JVM; it runs one call at a time."""

    def __init__(self, source: Path, options: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [
                *("java", *jars.TOOL_OPTIONS, *jars.archive_options(), *options),
                *("-cp", jars.classpath(), str(source)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError("the JVM has ended")
        return json.loads(answer)
