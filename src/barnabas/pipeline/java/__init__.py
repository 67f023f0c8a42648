"""Java's connectors beside ours: one supervised worker of Apache Kafka's Connect.

What lives here: the worker's jars and settings, its process, and its jobs as the runner sees them.
What may not: HTTP requests of clients, which are `rest`'s.

The active runner runs the worker, on an address of the loopback interface that asks for a password
which only the runner knows. The worker is a cluster of Java's Connect with its own group. It has
topics for configurations and states beside the runner's, and keeps positions in the runner's. Each
runner replays these topics, so that it answers reads without the worker; changes go to the worker.

    java_jobs         the worker's jobs, plug-ins and requests
    failed_jobs       when to restart failed jobs (sans-I/O)
    worker_process    starts the JVM, watches it, starts it again after a delay
    jvm_guard         the process between runner and JVM, which ends the JVM with the runner
    worker_settings   the files that the worker reads, its secrets among them
    worker_requests   requests to the worker
    worker_metrics    metrics of the worker
    worker_lines      the worker's log lines as lines of the runner's log
    worker_jars       Kafka's jars in the user's cache
"""
