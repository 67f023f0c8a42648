"""The log lines of simulated nodes: a part of a seed's log, and a check.

The server logs an exception that it survives, of a timer or of a background task for example. In a
simulation such a line ends the seed, unless the exception is one that a fault explains.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from barnabas.protocol.errors import KafkaError
from barnabas.tasks.current_world import current
from barnabas.testing.simulation.sim_tasks import SimTasks
from barnabas.testing.simulation.world import World


class _Lines(logging.Handler):
    """Writes lines to the log of a world; ends the run after an unexpected exception."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR if world.log is None else logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        world, tasks = self._world, current.world
        process = tasks.process if isinstance(tasks, SimTasks) else ""
        if world.log is not None:
            line = f"{record.levelname.lower()} {record.getMessage()}"
            world.log(f"{world.now_us / 1e6:10.6f} {process} {line}")
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Exception) and not isinstance(error, KafkaError | OSError):
            world.fail(error)


@contextmanager
def lines_of(world: World) -> Generator[None]:
    """Pass the log lines of the nodes to a world, and nowhere else."""
    logger, handler = logging.getLogger("barnabas"), _Lines(world)
    before = logger.level, logger.propagate, logging.root.manager.disable
    logger.setLevel(handler.level)
    logger.propagate = False
    logger.addHandler(handler)
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        level, logger.propagate, disabled = before
        logger.setLevel(level)
        logging.disable(disabled)
