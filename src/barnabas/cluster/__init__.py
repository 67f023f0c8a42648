"""The quorum, the metadata and the replicas of a cluster: state machines without I/O.

`quorum` agrees on a log, `controller` decides which metadata records it gets, `metadata` replays
committed records into an image, `replication` applies the changes to partitions, and `broker` takes
part in the cluster as one of its brokers. They receive events, the time and randomness as arguments
and return what to write and send; the shells in `server.quorum` do the I/O.
"""
