"""Pipelines on real Spark against a real server."""
