"""Handlers of groups and committed offsets, and FindCoordinator."""
