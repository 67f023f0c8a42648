"""A log directory of a simulated broker, on a disk that can fail or be replaced."""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from barnabas.log.checkpoints import UNREGISTERED
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.testing.simulation.sim_partition_log import SimPartitionLog

PartitionName = tuple[str, int]


@attrs.define(slots=True, eq=False)
class SimVolume:
    """One directory; `logs` has its partitions, also while the disk does not work.

    A `broken` disk fails the next operation. The directory is offline from then on (`failure`),
    until a start of the broker finds that the disk works.
    """

    directory_id: Uuid
    logs: "dict[PartitionName, SimPartitionLog]" = attrs.field(
        factory=dict[PartitionName, "SimPartitionLog"]
    )
    broken: OSError | None = None
    failure: OSError | None = None
    on_failure: "Callable[[SimVolume], None] | None" = None
    is_cordoned: bool = False
    previous_broker_epoch: int = UNREGISTERED
    """The broker epoch in the clean shutdown file that the last start found and removed."""
    clean_epoch: int | None = None
    """The broker epoch in the clean shutdown file, None while there is no file."""

    @property
    def path(self) -> str:
        """The name of the directory."""
        return f"directory {self.directory_id}"

    def break_down(self, *, is_full: bool) -> None:
        """Let every operation fail: the disk is full, or it does not work."""
        number = errno.ENOSPC if is_full else errno.EIO
        self.broken = OSError(number, errno.errorcode[number])

    def mend(self) -> None:
        """Let the disk work again; the directory stays offline until the broker starts."""
        self.broken = None

    def start(self) -> None:
        """The broker starts: the directory is online when its disk works."""
        self.failure = self.broken
        if self.failure is None:
            epoch, self.clean_epoch = self.clean_epoch, None
            self.previous_broker_epoch = UNREGISTERED if epoch is None else epoch

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the clean shutdown file (`Volume.mark_clean`)."""
        is_unregistered = broker_epoch == UNREGISTERED
        self.clean_epoch = self.previous_broker_epoch if is_unregistered else broker_epoch

    def check(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR when the directory is offline, or fails now."""
        if self.failure is None and self.broken is not None:
            self.failure = self.broken
            if self.on_failure is not None:
                self.on_failure(self)
        if self.failure is not None:
            raise self.offline()

    def offline(self) -> KafkaError:
        """Return the error of a partition in the failed directory."""
        what = f"the directory is offline: {self.failure}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, what)
