"""Kill cycles of a JDBC sink: the load's records become rows, each once.

`python -m compat_tests.pipeline.jdbc_kills --cycles 20 --database mariadb` kills repeatedly, at
random points: the worker, the driver, the broker and the database.
"""

import argparse
import functools
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compat_tests import mariadb, postgres
from compat_tests.database_process import DatabaseProcess
from compat_tests.mariadb import MariadbServer
from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.killed_job import DriverProcess, Load, create_topics, wait_until
from compat_tests.pipeline.planted_daemon import POINTS
from compat_tests.postgres import PostgresServer
from compat_tests.servers import BarnabasProcess, ServerProcess

STRING = "org.apache.kafka.connect.storage.StringConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms"
DATABASES = {"postgres": (PostgresServer, postgres), "mariadb": (MariadbServer, mariadb)}


class JdbcSinkJob(ForwardJob):
    """A JDBC sink under load. Its first batch is killed when the database has committed it."""

    def __init__(
        self, server: ServerProcess, directory: Path, name: str, database: DatabaseProcess
    ) -> None:
        self.server, self.name, self.database = server, name, database
        self.source = f"{name}-source"
        create_topics(server.bootstrap, [self.source])
        self.driver = DriverProcess(directory, {"plan": self.plan()})
        self.load = Load(server.bootstrap, self.source)
        point = self.driver.points / "produced"
        point.write_text("kill-worker")
        self.driver.start()
        reached = self.driver.points / "produced.reached"
        wait_until(reached.exists, "first batch", self.driver)
        self.driver.wait_for_progress()

    def plan(self) -> dict[str, Any]:
        config = {
            **self.database.properties,
            "name": self.name,
            "topics": self.source,
            "table.name.format": "numbers",
            "auto.create": "true",
        }
        chain = {
            "key.converter": STRING,
            "value.converter": STRING,
            "transforms": "field,number",
            "transforms.field.type": f"{TRANSFORMS}.HoistField$Value",
            "transforms.field.field": "number",
            "transforms.number.type": f"{TRANSFORMS}.Cast$Value",
            "transforms.number.spec": "number:int64",
        }
        return {
            **super().plan(),
            "kind": "sink",
            "target_topic": None,
            "connector_class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "task_configs": [config],
            "properties": {**config, **chain},
        }

    def kill_database(self) -> None:
        """Kill the server under load; the job fails, and is started again."""
        time.sleep(random.uniform(0, 1))
        self.database.kill()
        self.database.start()
        self._wait_for_another_start()

    def check_output(self, sent: int) -> None:
        rows = self.database.run("SELECT number FROM numbers ORDER BY number")
        assert [number for (number,) in rows] == list(range(sent))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--database", choices=sorted(DATABASES), default="postgres")
    options = parser.parse_args()
    kind, setup = DATABASES[options.database]
    if reason := setup.missing():
        print(reason)
        return 1
    server, database = BarnabasProcess(), kind()
    try:
        server.start()
        database.start()
        with TemporaryDirectory(prefix="barnabas-jdbc-") as directory:
            job = JdbcSinkJob(server, Path(directory), "soak", database)
            actions = [
                *[functools.partial(job.kill_worker_at, point) for point in POINTS],
                *[functools.partial(job.kill_driver_at, point) for point in POINTS],
                *[job.kill_workers, job.kill_broker, job.kill_database],
            ]
            for number in range(options.cycles):
                random.choice(actions)()
                print(f"{number + 1} kills", flush=True)
            sent = job.check()
    finally:
        server.close()
        database.close()
    print(f"{options.cycles + 1} kills, {sent} records: each row once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
