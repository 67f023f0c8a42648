"""Clusters of several nodes: interchange with Apache Kafka, and the ladder of trials."""
