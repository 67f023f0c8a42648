"""Real clients and tools against a real server: barnabas, Apache Kafka, or any other.

A test here starts from a bootstrap address and knows nothing of what answers behind it; what
holds only for our own server says so with the `barnabas_only` mark. `servers` starts and stops
the processes, `jars` runs Kafka's Java tools, `wire` sends raw requests, `web_access` makes the
data. Tests share one server, so every topic and group gets a name of its own.
"""
