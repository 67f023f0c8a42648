"""Delays between attempts."""

import attrs


@attrs.frozen
class Backoff:
    """Exponential backoff with jitter, as Kafka's clients compute it (KIP-580)."""

    initial_s: float
    maximum_s: float
    jitter: float = 0.2

    def delay_s(self, failures: int, random_unit: float) -> float:
        """Return the delay after a number of failures in a row; `random_unit` is in [0, 1).

        The delay doubles with each failure and differs by the jitter in both directions.
        """
        if failures <= 0:
            return 0.0
        exponent = min(failures - 1, 30)
        delay = min(self.initial_s * (1 << exponent), self.maximum_s)
        return delay * (1 + self.jitter * (2 * random_unit - 1))
