"""The state of a bucket as one blob, with the signature of its kernel.

The signature is compared when the blob is read: a state of another kernel, of another version or
with other settings is refused, and the message names the difference.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from barnabas.pipeline.streams.kernels.bucket_state import (
    QUEUE,
    USER_STORE,
    BucketState,
    Store,
    TaskState,
)
from barnabas.pipeline.streams.kernels.kernel_protocol import StateMismatchError
from barnabas.pipeline.streams.kernels.kernel_rows import Value
from barnabas.pipeline.streams.kernels.paged_stores import (
    DamagedPageError,
    DueQueue,
    OrderedStore,
    store_of,
)
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack

_FORMAT: Final = 2
_HEAPS: Final = "heaps"
_WITHOUT_PAGES: Final = 1
"""An earlier format, in which a store is a dict as a whole."""


def encode(state: BucketState, signature: Mapping[str, Value]) -> bytes:
    """Return the blob of a state. Raises StateMismatchError when a value is not plain data."""
    try:
        return pack([_FORMAT, dict(signature), _plain(state)])
    except ValueError as error:
        message = f"the state of {_name(signature)} cannot be stored: {error}"
        raise StateMismatchError(message) from error


def decode(blob: bytes, signature: Mapping[str, Value]) -> BucketState:
    """Return the state of a blob.

    Raises StateMismatchError when it is not a state of the kernel with this signature.
    """
    try:
        version, stored, content = unpack(blob)
        if version in (_FORMAT, _WITHOUT_PAGES) and stored == dict(signature):
            return _state(content, is_older=version == _WITHOUT_PAGES)
    except (TypeError, ValueError, AttributeError, DamagedPageError) as error:
        message = f"the stored state of {_name(signature)} is damaged: {error}"
        raise StateMismatchError(message) from error
    if version not in (_FORMAT, _WITHOUT_PAGES):
        raise StateMismatchError(
            f"the stored state of {_name(signature)} has format {version!r}, and this release "
            f"reads the formats {_WITHOUT_PAGES} and {_FORMAT}"
        )
    raise StateMismatchError(_difference(stored, signature))


def _difference(stored: Value, signature: Mapping[str, Value]) -> str:
    kept = cast(dict[str, Value], stored if isinstance(stored, dict) else {})
    differences = [
        f"{name} is {kept.get(name)!r} in the state and {signature.get(name)!r} in the query"
        for name in sorted({*kept, *signature})
        if kept.get(name) != signature.get(name)
    ]
    return f"the stored state is not one of {_name(signature)}: {'; '.join(differences)}"


def _name(signature: Mapping[str, Value]) -> str:
    return str(signature.get("kernel", "a kernel"))


def _plain(state: BucketState) -> list[Value]:
    tasks = [[number, task.time_ms, task.plain()] for number, task in state.tasks.items()]
    return [tasks, {name: _plain(part) for name, part in state.parts.items()}]


def _state(content: Value, *, is_older: bool) -> BucketState:
    tasks, parts = content
    found = BucketState(is_older=is_older)
    for number, time_ms, plain in tasks:
        stores = _carried_over(plain) if is_older else _stores(plain)
        found.tasks[number] = TaskState(time_ms, stores)
    for name, part in parts.items():
        found.parts[name] = _state(part, is_older=is_older)
    return found


def _stores(plain: dict[str, list[Value]]) -> dict[str, Store | DueQueue]:
    return {name: store_of(store) for name, store in plain.items()}


def _carried_over(plain: dict[str, dict[Any, Value]]) -> dict[str, Store | DueQueue]:
    """Return the stores of the earlier format, whose queues were lists of the store "heaps"."""
    found: dict[str, Store | DueQueue] = {}
    for name, entries in plain.items():
        if name == _HEAPS:
            found |= {f"{QUEUE}{each}": DueQueue.of(heap) for each, heap in entries.items()}
        elif name.startswith(USER_STORE):
            found[name] = OrderedStore.of(entries)
        else:
            found[name] = dict(entries)
    return found
