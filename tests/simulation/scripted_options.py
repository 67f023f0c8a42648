"""The options of clusters for scripted seeds: nothing happens but what a script adds."""

from typing import Any

import attrs

from barnabas.testing.simulation.seed_options import NO_FEATURES, SeedOptions, draw_options


def replicated(seconds: int, **changes: Any) -> SeedOptions:
    """Three combined nodes with three replicas of each partition and one producer."""
    plain: dict[str, Any] = {
        "controllers": 3,
        "brokers": 3,
        "is_combined": True,
        "admins": 0,
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "elr_version": 1,
        "producers": 1,
        "producer_pause_ms": 100,
        "operator_pause_ms": 0,
        "voter_pause_ms": 0,
        "copiers": 0,
    }
    return attrs.evolve(draw_options(1, seconds, NO_FEATURES), **(plain | changes))
