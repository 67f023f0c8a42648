"""The program of a runner that `barnabas pipelines submit` has submitted: `barnabas pipelines`.

Spark's driver JVM starts it, and it ends with the JVM. On another host, barnabas and what it needs
come with the program, in the directory of the packed environment.
"""

import os
import sys
from pathlib import Path

PID_FILE = "BARNABAS_RUNNER_PID_FILE"
"""The variable with the file for the runner's process id, which the submitting command reads."""
_PACKAGES = "barnabas-workers"


def main() -> int:
    """Run the runner with the arguments of this process; return its exit code."""
    packages = os.path.abspath(_PACKAGES)
    sys.path[0:1] = [packages] if os.path.isdir(packages) else []
    from barnabas import parent_pipe
    from barnabas.cli.main import run

    # The JVM holds the other end of standard input.
    os.environ.update(parent_pipe.ENVIRONMENT)
    pid_file = os.environ.pop(PID_FILE, None)
    if pid_file is not None:
        Path(pid_file).write_text(str(os.getpid()))
    return run(["pipelines", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
