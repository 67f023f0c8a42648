"""`python -m tests.fuzz --seconds n`: damaged frames, batches and compressed data, without a
server.

`--executions n` limits the count instead; `--keep` stores inputs with a new outcome in the corpus.
"""

import argparse
import random
import resource
import sys

from tests.fuzz.fuzzer import Corpus, Finding, fuzz
from tests.fuzz.targets import TARGETS

MEMORY_MAX = 3 << 30  # bytes of address space: a runaway allocation fails instead of swapping


def main() -> int:
    """Fuzz for the given time; return 1 after a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--executions", type=int, default=None)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--keep", action="store_true", help="store new inputs in the corpus")
    options = parser.parse_args()
    if options.seconds is None and options.executions is None:
        options.seconds = 60
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, resource.getrlimit(resource.RLIMIT_AS)[1]))
    print(f"seed {options.seed}", flush=True)
    corpus = Corpus()
    try:
        done = fuzz(
            random.Random(options.seed),
            options.targets,
            corpus,
            seconds=options.seconds,
            executions=options.executions,
        )
    except Finding as finding:
        print(finding, file=sys.stderr)
        return 1
    if options.keep:
        corpus.write()
    print(f"{done} executions without a finding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
