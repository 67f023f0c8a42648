"""A planted mistake of the verification of first writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from barnabas.protocol.errors import ErrorCode
from barnabas.server.coordinators.transactions.transaction_verification import Admission


@contextmanager
def look_at_one_guard_first() -> Iterator[None]:
    """The guard of the first attempt counts, and before the answer of the coordinator."""
    hold: Any = Admission._hold  # pyright: ignore[reportPrivateUsage]

    def outcome(admission: Any, partition: Any) -> ErrorCode:
        guard = admission._guards.get(partition)
        if guard is None or guard.is_broken:
            return ErrorCode.INVALID_TXN_STATE
        return admission._outcomes.get(partition, ErrorCode.INVALID_TXN_STATE)

    def hold_once(admission: Any) -> None:
        if not admission._guards:
            hold(admission)

    with (
        mock.patch.object(Admission, "outcome", outcome),
        mock.patch.object(Admission, "_hold", hold_once),
        mock.patch.object(Admission, "_is_outdated", return_value=False),
    ):
        yield
