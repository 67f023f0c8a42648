"""Names and aliases of plug-ins."""

import pytest

from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    Plugin,
    PluginKind,
    PluginNotFoundError,
    PluginRegistry,
    plugin_registry,
)


def test_connector_is_found_by_its_class_and_two_aliases() -> None:
    registry = plugin_registry()
    name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    for given in (name, "FileStreamSinkConnector", "FileStreamSink"):
        assert registry.find(given, *CONNECTORS).class_name == name
    with pytest.raises(PluginNotFoundError, match=r"Class FileStream could not be found\."):
        registry.find("FileStream", *CONNECTORS)
    with pytest.raises(PluginNotFoundError):
        registry.find("os:system", *CONNECTORS)


def test_alias_of_two_classes_names_none_of_them() -> None:
    registry = PluginRegistry(
        Plugin(PluginKind.SINK, f"{package}.XConnector", "os:path", "1") for package in "ab"
    )
    assert registry.find("a.XConnector", PluginKind.SINK).version == "1"
    with pytest.raises(PluginNotFoundError):
        registry.find("X", PluginKind.SINK)


def test_inner_class_of_a_transformation_has_its_own_alias() -> None:
    plugin = Plugin(PluginKind.TRANSFORMATION, "org.x.Cast$Value", "os:path", "1")
    assert plugin.aliases == ("Value",)


@pytest.mark.parametrize(
    "plugin", plugin_registry().plugins(), ids=lambda plugin: plugin.class_name
)
def test_builtin_plugin_is_there_and_describes_its_configuration(plugin: Plugin) -> None:
    assert plugin.load()().config().keys is not None
