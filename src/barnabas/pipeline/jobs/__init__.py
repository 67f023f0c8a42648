"""Jobs: their store in Kafka, their supervision, and the active runner that keeps them running.

What lives here: `core` (sans-I/O: record formats of Connect's three topics, the state that they
describe, when to start, restart and stop a job), `job_config` and `job_planning` (from properties
to the plan that the engine runs), and the active runner's trio shell. What may not: Spark, which
only the engine imports, and HTTP requests, which `rest` answers.

How data passes: `runner_store` reads the topics into `core.store_state`; `active_runner` passes the
wanted jobs to `core.job_fleet`, whose effects start and stop jobs of the engine and write statuses
through `job_statuses`. The statuses come back through the topic, and REST shows them.
"""
