"""The quorum, the metadata and the replicas of a cluster; state machines without I/O.

`quorum` agrees on a log, `controller` decides which metadata records go into it, `metadata`
replays committed records into an image, and `replication` applies the changes to partitions. They
take events, the time and randomness as arguments and return what to write and send; the shells in
`server.quorum` do the I/O.
"""
