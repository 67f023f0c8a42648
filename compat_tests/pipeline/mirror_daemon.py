"""A Spark daemon whose workers act at planted points of a flow's copy, as `planted_daemon` says.

sent              the first batch of a copy is sent, and may not be acknowledged
produced          all batches are acknowledged; a position that belongs to them is not committed
committed         the copy has ended, and Spark does not know it
"""

from typing import Any

from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.pipeline.spark import python_daemon
from compat_tests.pipeline.planted_daemon import reached

POINTS = ("sent", "produced", "committed")


def plant() -> None:
    """Wrap the calls of a copy."""
    send, flush, copy = TargetProduces.send, TargetProduces.flush, RangeCopier.copy

    async def sent(self: Any, batch: Any) -> None:
        await send(self, batch)
        reached("sent")

    async def produced(self: Any) -> None:
        await flush(self)
        reached("produced")

    async def committed(self: Any, wanted: Any) -> Any:
        figures = await copy(self, wanted)
        reached("committed")
        return figures

    TargetProduces.send = sent  # type: ignore[method-assign]
    TargetProduces.flush = produced  # type: ignore[method-assign]
    RangeCopier.copy = committed  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    python_daemon.main()
