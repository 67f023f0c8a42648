"""Views of tables, for SELECT of a key: opened with the first one, kept up to date afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.views.app_views import AppViews
from barnabas.pipeline.views.live_view import (
    ViewFailedError,
    ViewNotReadyError,
    ViewSpec,
    ViewStoreError,
)
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_keys import KeyForm, ViewKeys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.shell.key_lookups import KeyLookup
    from barnabas.pipeline.views.live_view import LiveView

_READ_S: Final = 60.0
_BYTES: Final = CODECS["bytes"]


class TableViews:
    """Views by topic, on every runner: one that stands by has its own."""

    def __init__(self, client: Mapping[str, str], directory: Path) -> None:
        """Take the properties of clients, and where the views keep their rows."""
        self._views = AppViews(client, directory)

    def rows(self, lookup: KeyLookup) -> tuple[list[list[Any]], int]:
        """Return the rows of keys, and a recent time at which the view had all of its topic.

        The first call for a table waits until its view has read the topic. Raises UnresolvedError
        when it does not within a minute, or cannot.
        """
        try:
            view = self._opened(lookup.source)
            return self._rows(view, lookup), view.current_at_ms
        except (ViewFailedError, ViewNotReadyError, ViewStoreError, ValueError) as error:
            raise UnresolvedError(f"The table {lookup.source.name} is not read: {error}") from None

    def forget(self, topic: str) -> None:
        """Close the view of a table that is dropped: another one may have its topic."""
        self._views.close_view(topic)

    def close(self) -> None:
        """Close all views; their rows stay."""
        self._views.close()

    def _opened(self, source: Source) -> LiveView:
        path = self._views.path(source.topic)
        spec = ViewSpec(source.topic, path, _BYTES, _BYTES, _keys(source))
        # Another runner may have replaced a table by one with other windows.
        self._views.close_view(source.topic, unless=spec.keys)
        return self._views.open(spec, _READ_S)

    def _rows(self, view: LiveView, lookup: KeyLookup) -> list[list[Any]]:
        results: list[list[Any]] = []
        for key in lookup.keys:
            data = lookup.key_bytes(key)
            if view.spec.keys.is_windowed:
                found = view.windows(data, lookup.from_ms, lookup.to_ms)
            else:
                row = view.get_row(data)
                found = [] if row is None else [row]
            results += [lookup.result(key, each) for each in found]
        return results


def _keys(source: Source) -> ViewKeys:
    window = source.window
    if window is None:
        return ViewKeys()
    if window.size_ms is None:
        return ViewKeys(KeyForm.SESSION)
    return ViewKeys(KeyForm.TIME_WINDOW, window.size_ms)
