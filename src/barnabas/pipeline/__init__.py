"""Pipelines on PySpark: Connect's jobs, stream processing, and the runner that supervises them.

What lives here: one engine on Spark Structured Streaming and everything that describes, starts,
watches and stops its jobs. What may not: knowledge of the broker's inside. This room speaks Kafka's
protocol to any Kafka and imports `protocol`, `config`, `client` and `http` only; only `cli`
imports it.

    data        Connect's data: records, schemas, converters, transformations, predicates (pure)
    connect     Connect's REST API, configuration definitions, validation, plug-ins, connectors
    delivery    exactly-once deliveries: plans of jobs, and what runs in Spark's tasks
    spark       the engine: one Spark session
    streams     operators of stream processing, as kernels and as DataFrames
    sink        the format `barnabas` for Spark programs of users
    jobs        the supervisor (sans-I/O), the store in Connect's three topics, the runner (trio)

How data passes: a request (`connect`) changes the store (`jobs`), the supervisor compares the store
with what runs and asks the engine to start or stop a job; the engine's progress goes back to the
supervisor, which writes the status that requests read. Records themselves never pass the runner:
Spark's tasks read and write them.
"""
