"""Handlers that change or describe topics, configurations, features, replicas and directories."""
