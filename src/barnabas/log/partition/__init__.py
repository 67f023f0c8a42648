"""One partition's log: append, read, look-up by time, truncation, retention, rolling, flushing.

`PartitionLog` is a list of segments plus the producer state and leader epochs that describe them.
Each other module here is one operation on it.
"""
