"""`python -m bench.transactions`: transactions per second, and the server's cost of one.

One producer of confluent-kafka, and then several in threads, each commits transactions of 100
records of 100 bytes to three partitions, on both servers alternately.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.servers import Measured, cpu_seconds, kinds_to_measure

TOPIC = "transactions-bench"
PARTITIONS, RECORDS, SIZE = 3, 100, 100
WARM_UP, MEASURED_S = 100, 8.0


def producer(bootstrap: str, number: int) -> Producer:
    """Return a producer with a new transactional id and its epoch."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "transactional.id": f"id-{number}"}
    made = Producer(settings)
    made.init_transactions(60)
    return made


def transaction(made: Producer) -> None:
    """Run one transaction."""
    made.begin_transaction()
    for number in range(RECORDS):
        made.produce(TOPIC, b"." * SIZE, partition=number % PARTITIONS)
    made.commit_transaction(60)


def commit_until(made: Producer, deadline: float) -> int:
    """Commit until the deadline; return the number of transactions."""
    count = 0
    while time.monotonic() < deadline:
        transaction(made)
        count += 1
    return count


def measure(server: Measured, producers: int) -> None:
    """Print the rate and the server's CPU."""
    made = [producer(server.bootstrap, number) for number in range(producers)]
    for each in made:
        for _ in range(WARM_UP):
            transaction(each)
    cpu, deadline = cpu_seconds(server), time.monotonic() + MEASURED_S
    with ThreadPoolExecutor(producers) as pool:
        count = sum(pool.map(lambda each: commit_until(each, deadline), made))
    cpu = cpu_seconds(server) - cpu
    print(
        f"{server.kind:9} {producers:2} producers: {count / MEASURED_S:6.0f} transactions/s, "
        f"{cpu / count * 1000:5.2f} ms of the server's CPU each"
    )


def main() -> int:
    """Measure both servers, or one."""
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__)
    parser.add_argument("--only", choices=["kafka", "barnabas"], help="measure one server alone")
    options = parser.parse_args()
    for kind in kinds_to_measure(options.only).values():
        server = kind()
        server.prepare()
        server.start()
        try:
            admin = AdminClient({"bootstrap.servers": server.bootstrap})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
            for producers in (1, 8):
                measure(server, producers)
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
