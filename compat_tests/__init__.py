"""Real clients and tools against a real server: barnabas, Apache Kafka, or any other.

A test gets a bootstrap address and does not depend on the server behind it; a test that applies
only to barnabas has the `barnabas_only` mark. `servers` starts and stops processes, `jars` runs
Kafka's Java tools, `wire` sends raw requests, `web_access` generates data. Tests share one server,
so every topic and group has a unique name.
"""
