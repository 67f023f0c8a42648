"""The scrubber: closed segments are read now and then, slowly, by a helper process.

`barnabas.scrub.interval.ms` says how often; it is off by default. See `barnabas.log.scrubbing`.
"""

import logging
from typing import TYPE_CHECKING, Final

import trio

from barnabas.server.storage.helper_process import Helper, HelperGoneError

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

# The first round waits no longer than this, or a node that is often restarted would have none.
_FIRST_ROUND_S_MAX: Final = 600.0


class Scrubber:
    """Reads all logs in rounds. `rotten` are the segments that the last round found, `bytes` all
    that was read since the start."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._helper = Helper("barnabas.log.scrubbing")
        self.bytes = 0
        self.rounds = 0
        self.rotten: dict[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        interval_ms = self._node.config.get_int("barnabas.scrub.interval.ms")
        if interval_ms < 0:
            return
        try:
            await trio.sleep(min(interval_ms / 1000, _FIRST_ROUND_S_MAX))
            while True:
                await self._round()
                await trio.sleep(interval_ms / 1000)
        finally:
            await self._helper.kill()

    async def _round(self) -> None:
        began, before = trio.current_time(), self.bytes
        rotten: dict[str, str] = {}
        for log in list(self._node.logs.logs()):
            if log.is_gone or log.volume.failure is not None:
                continue
            try:
                rotten.update(await self._faults(log.directory))
            except HelperGoneError as error:
                logger.warning(
                    "the scrubber's helper process ended log=%s error=%r", log.directory, error
                )
        self.rotten, self.rounds = rotten, self.rounds + 1
        await self._helper.kill()  # it has nothing to do for long
        logger.info(
            "scrubbed bytes=%d rotten_segments=%d seconds=%.0f",
            self.bytes - before,
            len(rotten),
            trio.current_time() - began,
        )

    async def _faults(self, directory: str) -> dict[str, str]:
        rate = self._node.config.get_int("barnabas.scrub.bytes.per.second")
        await self._helper.send({"directory": directory, "bytes_per_second": rate})
        answer = await self._helper.message()
        self.bytes += answer["bytes"]
        for path, fault in answer["faults"]:
            logger.error(
                "bit rot found segment=%s fault=%s hint=%s",
                path,
                fault,
                "consumers of these offsets fail; restore the segment from a replica or a backup",
            )
        return dict(answer["faults"])
