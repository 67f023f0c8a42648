"""The partitions this broker holds: who leads them, what is committed, and who waits for it.

`ReplicaManager` turns changes of the metadata image into partitions and logs; a `Partition` is one
replica: its leadership, its in-sync set and high watermark over a `log.PartitionLog`, and the
listeners that an append wakes. Plain calls and callbacks: the loop, threads and timers around them
belong to the server.
"""

from barnabas.cluster.replication.partition import AppendResult, Partition
from barnabas.cluster.replication.partition_ports import PartitionListener
from barnabas.cluster.replication.replica_manager import ReplicaManager

__all__ = ["AppendResult", "Partition", "PartitionListener", "ReplicaManager"]
