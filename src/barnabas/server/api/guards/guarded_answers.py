"""Answers of a handler that a guard completes."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutine
from typing import Any, TypeAlias

from barnabas.server.api.context import Deferred

Answer: TypeAlias = Any
"""A handler's answer: a response, a coroutine or `Deferred` that has it later, or None for none."""
Complete: TypeAlias = Callable[[Answer], object]
"""Takes a response and completes it."""


def completed(answer: Answer, complete: Complete) -> Answer:
    """Return the handler's answer; `complete` is called with the response as soon as it is there.

    It is not called for an exception, nor for a request without a response.
    """
    if isinstance(answer, Deferred):
        return _completed_later(answer, complete)
    if iscoroutine(answer):
        return _awaited(answer, complete)
    if answer is not None:
        complete(answer)
    return answer


async def _awaited(answer: Awaitable[Answer], complete: Complete) -> Answer:
    return completed(await answer, complete)


def _completed_later(inner: Deferred, complete: Complete) -> Deferred:
    outer = Deferred()

    def resolve() -> None:
        if not isinstance(inner.response, BaseException):
            complete(inner.response)
        outer.resolve(inner.response)

    if inner.resolved:
        resolve()
    else:
        inner.when_resolved(resolve)
    return outer
