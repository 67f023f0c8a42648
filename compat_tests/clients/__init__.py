"""Suites of real clients, written by their authors, on three nodes of barnabas or Apache Kafka."""
