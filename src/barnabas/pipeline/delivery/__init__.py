"""Ways to deliver a job's records exactly once: forward, micro-batches and slices.

What lives here: the plan of a job, its progress and its failure as plain values; what runs in
Spark's tasks (transactions, offsets, dead letters); and the driver's side of each delivery, which
starts Spark's queries and jobs. What may not: HTTP, trio, the state of jobs, formats of records.

How data passes: `spark.engine` gives a `JobPlan` and a Spark session to a delivery, the delivery
starts a query, or one Spark job after the other, whose tasks call `worker_tasks`, and each task
returns figures.

    lake          files and tables that Spark writes, and the rows of Spark's own sources
    micro_batches jobs with state: an aggregate or a join, written micro-batch by micro-batch
    forward       copies, sinks and queries without a shuffle: one task for each partition
    slices        source connectors
    driver        queries, loops of jobs, the state of the cluster: what the deliveries share there
    writing       writers of rows in tasks, with producers and transactions
    rows          records and columns in Arrow's form
    plan          plans of jobs and tasks, positions, failures: plain values and decisions
    worker_tasks  the functions that Spark's Python workers call, one for each kind of task

A package imports only those below it in this list; `micro_batches`, `forward` and `slices` do not
import each other. The first four name the functions of `worker_tasks`, which calls the code of
their tasks. A worker imports `worker_tasks` and what it needs; none of these imports trio or an
HTTP library.
"""
