"""The scrubber: a helper process reads closed segments at an interval, slowly.

`barnabas.scrub.interval.ms` is the interval; it is off by default. See `barnabas.log.scrubbing`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas import tasks
from barnabas.log.helper_framing import SCRUB_JOB
from barnabas.server.storage.helper_pool import SCRUBBING, HelperPool
from barnabas.server.storage.helper_process import HelperGoneError

if TYPE_CHECKING:
    from barnabas.config import NodeConfig
    from barnabas.log import LogManager

logger = logging.getLogger(__name__)

# The first round starts after this time at most: a node that restarts often must complete one too.
_FIRST_ROUND_S_MAX: Final = 600.0


class Scrubber:
    """Reads all logs in rounds.

    `rotten` are the damaged segments that the last round found; `bytes` is the number of bytes read
    since the start.
    """

    def __init__(
        self, config: Callable[[], "NodeConfig"], logs: "LogManager", helpers: HelperPool
    ) -> None:
        self._config = config
        self._logs = logs
        self._helpers = helpers
        self.bytes = 0
        self.rounds = 0
        self.rotten: dict[str, str] = {}

    async def run(self) -> None:
        """Run rounds until cancelled."""
        interval_ms = self._config().get_int("barnabas.scrub.interval.ms")
        if interval_ms < 0:
            return
        await tasks.sleep(min(interval_ms / 1000, _FIRST_ROUND_S_MAX))
        while True:
            await self._run_round()
            await tasks.sleep(interval_ms / 1000)

    async def _run_round(self) -> None:
        began, before = tasks.current_time(), self.bytes
        rotten: dict[str, str] = {}
        for log in list(self._logs.logs()):
            if log.is_gone or log.volume.failure is not None:
                continue
            try:
                rotten.update(await self._faults(log.directory))
            except HelperGoneError as error:
                logger.warning("cannot scrub log=%s error=%s", log.directory, error)
        self.rotten, self.rounds = rotten, self.rounds + 1
        await self._helpers.end_idle(SCRUBBING)
        logger.info(
            "scrubbed bytes=%d rotten_segments=%d seconds=%.0f",
            self.bytes - before,
            len(rotten),
            tasks.current_time() - began,
        )

    async def _faults(self, directory: str) -> dict[str, str]:
        rate = self._config().get_int("barnabas.scrub.bytes.per.second")
        async with self._helpers.borrow(SCRUBBING) as helper:
            await helper.send({"job": SCRUB_JOB, "directory": directory, "bytes_per_second": rate})
            answer, _ = await helper.receive()
        self.bytes += answer["bytes"]
        for path, fault in answer["faults"]:
            logger.error(
                "bit rot found segment=%s fault=%s hint=%s",
                path,
                fault,
                "consumers of these offsets fail; restore the segment from a replica or a backup",
            )
        return dict(answer["faults"])
