"""Jobs with state: an aggregate or a join, whose results are written micro-batch by micro-batch.

What lives here: the query of such a job, the task that writes a micro-batch's rows of one shuffle
partition in one transaction with its marker, and what a start compares. What may not: the operators
with state, which are in `streams`.

    micro_batch_job      start a job with state
    micro_batch_tasks        the rows of a shuffle partition with their marker
    micro_batch_markers      what a task repeats (a decision, without input or output)
    marker_records     the markers in a topic, where they do not expire
    checkpoint_files   the files of a checkpoint that micro-batches need
    stream_times       the stream times of partitions; unread_records: what full ones left unread
    query_version      what the state of a job depends on, kept beside the checkpoint
    repeatable_rows    refuses queries that could deal the rows of a repeated micro-batch out to
                       other tasks
    micro_batch_removal     forget all that a job with state has stored
"""
