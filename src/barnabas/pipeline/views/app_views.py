"""The views of an app: opened with the first query, kept up to date until the app stops."""

import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from barnabas.pipeline.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.views.view_keys import ViewKeys


class AppViews:
    """Views by topic, in one directory."""

    def __init__(self, client: Mapping[str, str], directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._views: dict[str, LiveView] = {}
        self._lock = threading.Lock()

    def path(self, topic: str) -> Path:
        """Return the path of the file with the rows of a topic."""
        return self._directory / f"{quote(topic, safe='')}.sqlite"

    def open(self, spec: ViewSpec, timeout_s: float) -> LiveView:
        """Return the view of a topic, once it has read the topic.

        Raises ValueError when it is open for other windows, ViewStoreError when another process has
        its file, ViewNotReadyError when the time is over, and ViewFailedError.
        """
        with self._lock:
            found = self._views.get(spec.topic)
            if found is not None and not found.is_running():
                found.close()
                found = None
            if found is None:
                found = self._views[spec.topic] = LiveView.open(spec, self._client)
        if found.spec.keys != spec.keys:
            raise ValueError(
                f"the view of {spec.topic} is open for {found.spec.keys.form} keys, not for "
                f"{spec.keys.form} keys"
            )
        return found.wait_built(timeout_s)

    def close_view(self, topic: str, *, unless: ViewKeys | None = None) -> None:
        """Close the view of a topic, if it is open, unless its keys have a given form.

        The next one that opens it reads the topic from its start if that was created again.
        """
        with self._lock:
            found = self._views.get(topic)
            if found is not None and found.spec.keys != unless:
                self._views.pop(topic).close()

    def close(self) -> None:
        """Close all views; their rows stay."""
        with self._lock:
            for view in self._views.values():
                view.close()
            self._views.clear()
