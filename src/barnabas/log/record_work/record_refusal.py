"""What a producer is told of records that are refused."""

from barnabas.protocol.errors import ErrorCode, KafkaError


class RecordsRefusedError(KafkaError):
    """A batch refused for some of its records: (index in the batch, why) of each."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors or []
