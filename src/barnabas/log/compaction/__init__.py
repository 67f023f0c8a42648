"""Compaction: keep only the last record of each key (Kafka's `LogCleaner`).

`cleaning_plan` decides in the node which log to clean and up to which offset. `cleaner` processes
the records in a helper process (`barnabas.log.helper`), which reads segments and writes `.cleaned`
files beside them. `partition.segment_swap` puts these in place. The two processes exchange paths
and numbers, never records.
"""
