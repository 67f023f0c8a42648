"""The table of plug-ins: from the class name of a configuration to the class.

A name is looked up in the table only: no text of a client is ever imported. The table has the
plug-ins of barnabas (`builtin_plugins`) and those of installed packages, which declare them as
entry points of the groups in `ENTRY_POINT_GROUPS`. A plug-in has the class name of Java's plug-in
that it stands for, so that configurations written for Java's Connect work, and Connect's two
aliases: the class's simple name, and that name without its kind.

A plug-in's module is imported by `load`, and by nothing else.
"""

from collections.abc import Iterable
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import attrs


class PluginKind(Enum):
    """The kind of a plug-in, as Connect's REST API names it."""

    SOURCE = "source"
    SINK = "sink"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTORS: Final = (PluginKind.SOURCE, PluginKind.SINK)

ENTRY_POINT_GROUPS: Final = {
    "barnabas.connectors": CONNECTORS,
    "barnabas.transformations": (PluginKind.TRANSFORMATION,),
    "barnabas.predicates": (PluginKind.PREDICATE,),
    "barnabas.converters": (PluginKind.CONVERTER,),
    "barnabas.header_converters": (PluginKind.HEADER_CONVERTER,),
}
"""The groups of entry points, and the kinds of plug-ins that they may hold."""

SQL_FUNCTIONS: Final = "barnabas.sql_functions"
"""The group of functions of SQL, which Connect does not have as plug-ins."""

_SUFFIXES: Final = {
    PluginKind.SOURCE: "Connector",
    PluginKind.SINK: "Connector",
    PluginKind.TRANSFORMATION: "Transformation",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
}


class PluginNotFoundError(Exception):
    """No plug-in of the table has the name."""


@attrs.frozen
class Plugin:
    """One row of the table. `target` is where the class is: "module:attribute"."""

    kind: PluginKind
    class_name: str
    target: str
    version: str

    @property
    def aliases(self) -> tuple[str, ...]:
        """The class's simple name, and the name without the suffix of its kind."""
        simple = self.class_name.rpartition(".")[2].rpartition("$")[2]
        head, suffix, _ = simple.rpartition(_SUFFIXES[self.kind])
        return (simple, head) if head and suffix else (simple,)

    def load(self) -> Any:
        """Return the class; import its module."""
        module, _, attribute = self.target.partition(":")
        found: Any = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
        return found


class PluginRegistry:
    """Plug-ins by class name and alias. An alias of several classes names none of them."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins = tuple(plugins)
        self._by_name: dict[tuple[PluginKind, str], Plugin] = {}
        aliases: dict[tuple[PluginKind, str], set[Plugin]] = {}
        for plugin in self._plugins:
            self._by_name[plugin.kind, plugin.class_name] = plugin
            for alias in plugin.aliases:
                aliases.setdefault((plugin.kind, alias), set()).add(plugin)
        for key, found in aliases.items():
            if len(found) == 1:
                self._by_name.setdefault(key, *found)

    def plugins(self, *kinds: PluginKind) -> list[Plugin]:
        """Return the plug-ins of the given kinds, or all, by class name."""
        wanted = [each for each in self._plugins if not kinds or each.kind in kinds]
        return sorted(wanted, key=lambda each: (list(PluginKind).index(each.kind), each.class_name))

    def find(self, name: str, *kinds: PluginKind) -> Plugin:
        """Return the plug-in of a class name or alias. Raises PluginNotFoundError.

        The alias "FileStream" would name a source and a sink: an alias of both kinds is unknown.
        """
        found = [self._by_name[kind, name] for kind in kinds if (kind, name) in self._by_name]
        if len({plugin.class_name for plugin in found}) != 1:
            raise PluginNotFoundError(f"Class {name} could not be found.")
        return found[0]


@cache
def plugin_registry() -> PluginRegistry:
    """Return the table of this installation; entry points are read once."""
    from barnabas.pipeline.connect.builtin_plugins import BUILTIN_PLUGINS

    return PluginRegistry([*BUILTIN_PLUGINS, *_installed_plugins()])


def _installed_plugins() -> list[Plugin]:
    return [
        _installed_plugin(found, kinds)
        for group, kinds in ENTRY_POINT_GROUPS.items()
        for found in entry_points(group=group)
    ]


def _installed_plugin(entry: EntryPoint, kinds: tuple[PluginKind, ...]) -> Plugin:
    """Return the plug-in of an entry point; its name is the class name of configurations.

    The kind of a connector is the class's attribute `kind`, "source" or "sink".
    """
    kind = kinds[0]
    if len(kinds) > 1:
        kind = PluginKind(entry.load().kind)
    version = entry.dist.version if entry.dist is not None else "undefined"
    return Plugin(kind, entry.name, f"{entry.module}:{entry.attr}", version)
