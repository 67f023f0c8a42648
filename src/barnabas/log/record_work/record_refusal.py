"""The error that a producer receives for refused records."""

from barnabas.protocol.errors import ErrorCode, KafkaError


class RecordsRefusedError(KafkaError):
    """A batch is refused because of some records; `record_errors` has (index, reason) of each."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors or []
