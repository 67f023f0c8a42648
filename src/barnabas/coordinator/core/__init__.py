"""Shared by all coordinators: operation output, steps, timers, and routing to partitions."""
