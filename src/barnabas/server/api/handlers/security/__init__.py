"""Handlers of access control lists."""
