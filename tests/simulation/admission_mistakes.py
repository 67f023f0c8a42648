"""A planted mistake of the verification of first writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.simulation.admission_driver import AdmissionDriver


@contextmanager
def look_at_one_guard_first() -> Iterator[None]:
    """The guard of the first attempt counts, and before the answer of the coordinator."""
    check: Any = AdmissionDriver._check  # pyright: ignore[reportPrivateUsage]

    def mistaken(driver: Any, admission: Any) -> None:
        if admission.guard.is_broken:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended")
        check(driver, admission)

    def ask_again(driver: Any, admission: Any) -> None:
        driver._ask(admission)

    with (
        mock.patch.object(AdmissionDriver, "_check", mistaken),
        mock.patch.object(AdmissionDriver, "_ask_again", ask_again),
        mock.patch.object(AdmissionDriver, "_is_outdated", return_value=False),
    ):
        yield
