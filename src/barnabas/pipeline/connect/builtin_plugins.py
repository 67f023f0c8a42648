"""The plug-ins of barnabas: one row for each, under the class name of Java's plug-in."""

from typing import Final

from barnabas import __version__
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind


def _rows(kind: PluginKind, targets: dict[str, str]) -> tuple[Plugin, ...]:
    return tuple(Plugin(kind, name, target, __version__) for name, target in targets.items())


BUILTIN_PLUGINS: Final[tuple[Plugin, ...]] = (
    *_rows(PluginKind.SOURCE, {}),
    *_rows(PluginKind.SINK, {}),
    *_rows(PluginKind.TRANSFORMATION, {}),
    *_rows(PluginKind.PREDICATE, {}),
    *_rows(PluginKind.CONVERTER, {}),
    *_rows(PluginKind.HEADER_CONVERTER, {}),
)
"""Class names to the place of the class, "module:attribute"."""
