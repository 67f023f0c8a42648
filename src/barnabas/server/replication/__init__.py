"""Requests that wait for records or replicas: fetch sessions, commit waits and their timers."""
