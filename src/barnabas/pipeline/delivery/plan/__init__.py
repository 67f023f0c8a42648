"""Plans of jobs and of their tasks: plain values, and decisions without input or output.

What lives here: the plan of a job, the part of it that travels to the tasks, ranges and positions
of offsets, client properties, failures. What may not: Spark, Kafka clients, Arrow.

    job_plan           a job to run, its progress, its failure
    worker_plan        the part of a plan that travels to the tasks; task_plans makes it
    kafka_properties   client properties for librdkafka and for Spark
    librdkafka_tokens  tokens of OAUTHBEARER for librdkafka
    start_positions    the first offset of each partition
    offset_ranges      the offsets of one batch
    offset_metadata    the text beside a committed offset
    task_failures      failures on their way from a task to the driver
"""
