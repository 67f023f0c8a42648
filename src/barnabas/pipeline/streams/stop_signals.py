"""SIGINT and SIGTERM as the request to stop an app."""

import contextlib
import signal
import threading
from collections.abc import Generator
from signal import Signals


class StopRequest(threading.Event):
    """Set when a signal has requested the stop; `signal` is which one."""

    signal: Signals | None = None


@contextlib.contextmanager
def stop_requests() -> Generator[StopRequest]:
    """Set the event at SIGINT and SIGTERM; only the main thread can take signals."""
    requested = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return

    def request(number: int, frame: object) -> None:
        requested.signal = Signals(number)
        requested.set()

    before = {each: signal.signal(each, request) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
