"""Logs on their way to another data directory: copied beside the loop, resumed at the start."""

import logging
from typing import TYPE_CHECKING, Final

import trio

from barnabas.log.directories.log_relocation import LAST_STEP_MAX, LogRelocation, StaleCopyError
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 50  # a producer that is faster than the copy must not keep a move for ever


class RelocationWorker:
    """Carries out moves (Kafka's `ReplicaAlterLogDirsThread`)."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Go on with what the last run did not finish, and serve `begin` until cancelled."""
        node = self._node
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for move in list(node.logs.relocations.active.values()):  # asked for before this ran
                nursery.start_soon(self._carry_out, move, False)
            self._open_unfinished()
            for move in node.logs.relocations.resume():
                logger.info("move resumed log=%s copy=%s", move.log.directory, move.directory)
                nursery.start_soon(self._carry_out, move, True)
            try:
                await trio.sleep_forever()
            finally:
                for move in node.logs.relocations.active.values():
                    move.is_stopped = True

    def _open_unfinished(self) -> None:
        """Open the logs that were on their way, or a copy for one that is not there any more."""
        for topic, number in self._node.logs.relocations.interrupted():
            hosted = self._node.replicas.hosted(topic, number)
            try:
                _ = hosted and hosted.log
            except KafkaError as error:
                logger.error("a move waits for its log log=%s-%d error=%s", topic, number, error)

    def begin(self, move: LogRelocation) -> None:
        """Carry out a new move."""
        if self._nursery is not None:
            self._nursery.start_soon(self._carry_out, move, False)

    async def _carry_out(self, move: LogRelocation, is_resumed: bool) -> None:
        """Copy until little is left, and switch. A move that the end cuts off stays as it is."""
        node, log = self._node, move.log
        try:
            if is_resumed:
                await node.disk.run(move.resume)
            if not await self._copy(move):
                return
            await node.disk.run(move.make_ready)
            async with node.directories.moving(log, move.target):
                if not await self._copy(move):  # what was appended meanwhile
                    return
                await trio.lowlevel.checkpoint_if_cancelled()
                move.finish()
            logger.info("moved log=%s-%d to=%s", log.topic, log.partition, log.directory)
            node.logs.relocations.end(move)
            await node.disk.run(node.logs.checkpoint)
        except (StaleCopyError, FileNotFoundError):
            if node.logs.relocations.is_active(move):  # or it was called off, and the copy went
                logger.warning("move given up, the log changed log=%s", log.directory)
        except Exception:
            logger.exception("move failed log=%s", log.directory)
        node.logs.relocations.end(move)

    async def _copy(self, move: LogRelocation) -> bool:
        """Copy until little is left, or often enough; False for a move that was called off."""
        node = self._node
        for _ in range(_ROUNDS_MAX):
            await node.disk.run(move.copy)
            if not node.logs.relocations.is_active(move):
                return False
            if move.left_bytes <= LAST_STEP_MAX:
                break
        return True
