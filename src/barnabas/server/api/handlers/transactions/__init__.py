"""Handlers of idempotent producers and transactions."""
