"""The settings of a follower's fetches."""

import attrs


@attrs.frozen
class FetchSettings:
    """The `replica.fetch.*` properties. Durations are in ms, sizes in bytes."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1000
