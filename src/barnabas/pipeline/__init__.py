"""Pipelines on PySpark: Connect's jobs, stream processing, and the runner that supervises them.

What lives here: everything that describes, starts, watches and stops jobs, and the code that runs
in Spark's tasks. What may not: knowledge of the broker's inside. This room speaks Kafka's protocol
to any Kafka and imports `protocol`, `config`, `client`, `http` and the pure parts of `registry`.
The command line and the public modules, such as `barnabas.streams`, import it.

Spark runs a job in one of two ways. Copies, sinks and sources are bounded Spark jobs over ranges of
offsets or slices of time: their tasks read and write by themselves, and no record passes through
Spark's readers. Streams, `SparkSink` and `SparkSource` are queries of Structured Streaming. Views
run without Spark. docs/architecture.md has a picture, and the reasons.

    runner       the process of a runner: store, jobs, REST and engine, wired together
    rest         Connect's REST API
    java         Java's connectors on a worker of Apache Kafka's Connect
    sql          statements of SQL: the parser (no job is made of them yet)
    jobs         the supervisor (sans-I/O), the store in Connect's three topics, the active runner
    streams      operators of stream processing, as kernels and as DataFrames
    sink         the format `barnabas` for Spark programs of users
    spark        the engine: one Spark session
    mirror       flows: whole batches from cluster to cluster
    views        rows of a table's topic in SQLite, for look-ups by key
    delivery     exactly-once deliveries: plans of jobs, and what runs in Spark's tasks
    connect      plug-ins, connectors, validation, and the chain that a record goes through
    data         Connect's data: records, schemas, converters, transformations, predicates (pure)
    definitions  Kafka's ConfigDef: properties, their types and validators (pure)

A package imports only those below it in this list; `jobs`, `streams` and `sink` do not
import each other.

How data passes: a request (`rest`) changes the store (`jobs`), the supervisor compares the store
with what runs and asks the engine to start or stop a job; the engine's progress goes back to the
supervisor, which writes the status that requests read. Records themselves never pass the runner:
Spark's tasks read and write them.
"""
