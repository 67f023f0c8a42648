"""Reports of a simulated broker about its log directories, by the server's `DirectoryAssignments`.

The reports are coroutines that wait only for the controller; this driver resumes them with the
answers from the network.
"""

from collections.abc import Callable, Coroutine, Generator
from types import SimpleNamespace
from typing import Any, Final

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.directory_assignments import DirectoryAssignments
from barnabas.testing.simulation.sim_logs import SimLogs
from barnabas.testing.simulation.world import Process

_RETRY_MS: Final = 1_000


class _Request:
    """A request that a report waits for."""

    def __init__(self, request: Any) -> None:
        self.request = request

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self.request)


class _Channel:
    """The channel to the controller, as a report uses it."""

    async def send(self, request: Any, response_type: type[Any]) -> Any:
        """Return the response; raises KafkaError."""
        del response_type
        return await _Request(request)


class DirectoryDriver:
    """The directories of one life of a broker.

    `ask_controller` sends a request; its callback gets a message, or None.
    """

    def __init__(
        self,
        process: Process,
        logs: SimLogs,
        lifecycle: Any,
        *,
        ask_controller: Callable[[Any, Callable[[Any], None]], None],
    ) -> None:
        self._process = process
        self._ask_controller = ask_controller
        self._quorum: Any = SimpleNamespace(image=MetadataImage(), lifecycle=lifecycle)
        holder: Any = logs
        channel: Any = _Channel()
        self._assignments = DirectoryAssignments(holder, lifecycle.lifecycle, self._quorum, channel)
        self._report: Coroutine[Any, Any, None] | None = None

    def start(self, image: MetadataImage) -> None:
        """Compare the metadata with the directories."""
        self._quorum.image = image
        self._assignments.check_all(image)
        self._poll()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a later image."""
        self._quorum.image = image
        self._assignments.follow(image, delta)
        self._poll()

    def failed(self) -> None:
        """Report failed directories."""
        self._assignments.failed()
        self._poll()

    def _poll(self) -> None:
        if self._report is None and self._assignments.is_wanted:
            self._report = self._assignments.report()
            self._resume(None)

    def _resume(self, answer: Any) -> None:
        """Continue the report with an answer of the controller, or its absence."""
        report = self._report
        if report is None:
            return
        try:
            if isinstance(answer, KafkaError):
                request = report.throw(answer)
            else:
                request = report.send(answer)
        except StopIteration:
            self._report = None
            self._poll()
            return
        except KafkaError:
            self._report = None
            self._process.after_ms(_RETRY_MS, self.failed)
            return
        self._ask_controller(request, self._answered)

    def _answered(self, response: Any) -> None:
        lost = KafkaError(ErrorCode.NETWORK_EXCEPTION)
        self._process.after_ms(0, self._resume, lost if response is None else response)
