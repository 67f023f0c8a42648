"""Fetch: records from the log's files, at once or when there are enough of them.

Versions 4-18, for consumers and followers. A fetch that finds too few bytes is parked: it listens
to its partitions and reads only those that change (`fetch_reading`).
"""

from collections.abc import Callable, Coroutine
from typing import Any

from barnabas import tasks
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.handlers.data.fetch_reading import (
    TOPIC_IDS_VERSION,
    Fetching,
    requested_partitions,
)
from barnabas.server.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    next_epoch,
)


def fetch(
    context: DataContext, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Return the response at once when it is satisfied, otherwise wait for records or the time
    limit.
    """
    begun = begin_fetch(context, request)
    if isinstance(begun, FetchResponse):
        return begun
    return _wait(begun, request.max_wait_ms / 1000)


def begin_fetch(context: DataContext, request: FetchRequest) -> FetchResponse | Fetching:
    """Return the response when it is satisfied, otherwise the fetch that has to wait."""
    session: FetchSession | None = None
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        session, error = _continue_session(context, request)
        if error:
            return FetchResponse(error_code=error)
    elif request.session_id != NO_SESSION:
        context.services.fetch_sessions.remove(request.session_id)
    fetching = Fetching(context, request, session)
    if fetching.is_satisfied() or request.max_wait_ms <= 0:
        return fetching.response()
    return fetching


def _continue_session(
    context: DataContext, request: FetchRequest
) -> tuple[FetchSession | None, int]:
    """Return the session with the request's changes; None when it has no partitions left."""
    cache = context.services.fetch_sessions
    session = cache.get(request.session_id)
    if session is None:
        return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = context.version >= TOPIC_IDS_VERSION
    if session.watch.by_id != by_id:
        return None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    for key, requested in requested_partitions(request, by_id=by_id):
        session.request(key, requested)
    for topic in request.forgotten_topics_data:
        name = topic.topic_id if by_id else topic.topic
        for number in topic.partitions:
            session.forget((name, number))
    if not session.partitions:
        cache.remove(session.id)
        return None, 0
    session.epoch = next_epoch(session.epoch)
    cache.touch(session, context.services.clock.wall_ms())
    return session, 0


async def _wait(fetching: Fetching, seconds: float) -> FetchResponse:
    """Park until there are enough bytes or `seconds` have passed.

    Then changed partitions are read once more (`DelayedFetch.onComplete`): offsets are current.
    """
    watch = fetching.start_watching()
    parked: Callable[[], None] | None = None

    def park(resume: Callable[[], None]) -> None:
        nonlocal parked

        def wake() -> None:
            watch.wake = None
            resume()

        watch.wake = parked = wake

    def leave() -> None:
        if watch.wake is parked:  # else a later request of the session is parked
            watch.wake = None

    try:
        with tasks.move_on_after(seconds) as limit:
            while not fetching.look_again():
                await tasks.suspend(park, leave)
        if limit.cancelled_caught:
            fetching.look_again()
    finally:
        fetching.stop_watching()
    return fetching.response()
