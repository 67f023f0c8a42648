"""The Spark session of the pipelines: its jars, its settings, its Python workers, its jobs.

What lives here: starting one driver JVM with the settings that make small batches fast, and the
`Engine` that runs jobs in it. What may not: records, transactions, HTTP, the state of jobs.

How data passes: the runner gives a `JobPlan` to `engine.Engine`, which starts a delivery in the
session and returns a `RunningJob`. All calls block: call them from a thread.

    engine           jobs in one session
    session          settings of the session, starting and stopping the driver JVM
    jar_cache        Spark's Kafka connector in the user's cache
    local_file_system    Hadoop's local files without a process for each
    class_archive    the JVM's class-data archive, which halves the start time
    own_application    a job in its own Spark application: application_messages, _process
    worker_environment    the Python packages for workers on other hosts
    python_daemon    the process that forks Spark's Python workers
"""
