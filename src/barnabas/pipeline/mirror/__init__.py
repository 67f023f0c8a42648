"""A flow keeps topics of one cluster equal in another: it copies whole batches, exactly once.

What lives here: the connector `barnabas.MirrorConnector`, its job, and what its tasks do. What may
not: decoding of records where the header of a batch is enough; knowledge of the broker's inside.

A flow is a loop of bounded Spark jobs whose rows are ranges of offsets; while there is little to
copy, the driver copies it, because a job takes longer to start. The driver reads the ends
of the source's partitions and divides the ranges among tasks; each task copies its ranges through
the client of `barnabas.client`, and returns figures. Nothing is kept on a local disk: the position
of a partition is at the target, in the transaction of the batches or as the log end of a mirror
topic (`barnabas.mirror.source`).

    flow_connector      the connector's properties, and the settings that they make
    mirror_job          the loop: plan, run a Spark job, note the figures, follow the topics
    client_thread       the thread of the driver's clients
    cluster_failures    failures of clusters that do not answer
    flow_driver         positions, and the requests that they need
    cluster_queries     requests of the driver to one cluster
    lag_sizes           bytes that are not copied yet, estimated
    topic_following     topics of the target that are missing or differ: a decision
    flow_starts         the first offset to copy of each partition, or a refusal: a decision
    flow_promotion      the end: mirrors become ordinary topics on every leader
    flow_reversal       where the reverse of a promoted flow continues, and its topics
    topic_acls          ACLs that the target shall have: a decision, and its requests
    group_following     offsets of groups that the target shall have: a decision
    group_sync          reads and writes these offsets
    range_planning      ranges, and their tasks: a decision
    mirror_tasks        what Spark calls
    range_copies        the copy of one range, repeated after failures
    tail_copies         what arrives once the flow has caught up: the driver copies it by itself
    tail_state          a partition in it
    tail_transactions   its transactions, where offsets differ: one for all partitions of a response
    tail_fetches, tail_produces    its requests, of all partitions of a leader
    source_fetches, target_produces, target_transaction    its requests
    batch_copy          from Fetch responses to batches to produce (sans-I/O)
    flow_values         plain values that travel to tasks and back
    mirrormaker         MirrorMaker 2's formats and rules
"""
