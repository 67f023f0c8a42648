"""An app that counts the records of each key, with its state in an object store.

It gets the bootstrap servers, the source, the target, the master, the URI of its state and the
properties of Spark as JSON, and runs until a signal.
"""

import json
import sys

import barnabas.streams as ks


def main(bootstrap: str, source: str, target: str, master: str, state: str, spark: str) -> None:
    app = ks.App(source, bootstrap, master=master, state=state, spark=json.loads(spark))
    numbers = app.topic(source, key=ks.String(), value=ks.String())
    counts = numbers.group_by_key().fold(0, lambda count, _: count + 1, returns="BIGINT")
    app.write(counts, target)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
