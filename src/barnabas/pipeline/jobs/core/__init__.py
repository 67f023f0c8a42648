"""The sans-I/O part of jobs: formats, state, supervision.

What lives here: functions and state machines of (event, now). What may not: trio, clocks, files,
Kafka clients, Spark.
"""
