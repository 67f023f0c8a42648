"""Requests that wait for records or replicas: fetch sessions and deadlines."""
