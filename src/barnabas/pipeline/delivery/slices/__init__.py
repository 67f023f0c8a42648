"""Source connectors: bounded Spark jobs, in which each connector task is polled in transactions.

    slices_job       run a source connector slice by slice
    slice_tasks      polls of a connector's task, until time or count is reached
    source_offsets   its positions in Connect's offsets topic, in Java Connect's format

What may not live here: connectors, which are in `connect.connectors`. The positions of a slice are
records of the same transaction as its records.
"""
