"""Handlers of the node's data directories: DescribeLogDirs and AlterReplicaLogDirs."""
