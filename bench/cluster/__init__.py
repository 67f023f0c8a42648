"""The ladder: trials of three nodes, repeated, beside three Apache Kafka nodes."""
