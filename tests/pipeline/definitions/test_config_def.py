"""Types, defaults and errors of configuration definitions, with the messages of Apache Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import (
    ConfigType,
    ConfigValueError,
    Password,
    parse_value,
    value_text,
)
from barnabas.pipeline.definitions.config_validators import InRange, OneOf


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.STRING, " a b\x01", "a b"),
        (ConfigType.INT, "+7", 7),
        (ConfigType.SHORT, "-32768", -32768),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.DOUBLE, "1.5", 1.5),
        (ConfigType.LIST, "a , b,,c", ["a", "b", "", "c"]),
        (ConfigType.LIST, " ", []),
        (ConfigType.CLASS, "org.example.X", "org.example.X"),
        (ConfigType.PASSWORD, " s ", Password("s")),
    ],
)
def test_value_is_parsed_by_its_type(kind: ConfigType, text: str, value: object) -> None:
    assert parse_value("n", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_0", "Not a number of type INT"),
        (ConfigType.SHORT, "1.0", "Not a number of type SHORT"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
    ],
)
def test_bad_value_has_the_message_of_kafka(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ConfigValueError) as caught:
        parse_value("n", text, kind)
    assert str(caught.value) == f"Invalid value {text} for configuration n: {reason}"


@given(st.sampled_from(ConfigType), st.text())
def test_any_text_is_a_value_or_an_error(kind: ConfigType, text: str) -> None:
    try:
        value_text(parse_value("n", text, kind))
    except ConfigValueError:
        return


def test_password_is_never_shown() -> None:
    value = Password("s3cret")
    assert "s3cret" not in repr(value) + str(value) + str(value_text(value))


def key(
    name: str, kind: ConfigType = ConfigType.INT, default: object = 1, **more: object
) -> ConfigKey:
    return ConfigKey(name, kind, default, Importance.LOW, "text", **more)  # type: ignore[arg-type]


def test_validation_collects_all_errors() -> None:
    definition = ConfigDef(
        [
            key("missing", default=NO_DEFAULT),
            key("range", validator=InRange(1, 3)),
            key("choice", ConfigType.STRING, "a", validator=OneOf(("a", "b"))),
            key("fine"),
        ]
    )
    found = {each.name: each for each in definition.validate({"range": "9", "choice": "c"})}
    assert found["missing"].errors == [
        'Missing required configuration "missing" which has no default value.'
    ]
    assert found["range"].errors == [
        "Invalid value 9 for configuration range: Value must be no more than 3"
    ]
    assert found["choice"].errors == [
        "Invalid value c for configuration choice: String must be one of: a, b"
    ]
    assert (found["fine"].value, found["fine"].errors) == (1, [])
    with pytest.raises(ConfigValueError, match="Missing required"):
        definition.parse({})


def test_key_in_json_has_the_fields_of_connect() -> None:
    assert key("n", default=NO_DEFAULT, group="G", order_in_group=2).to_json() == {
        "name": "n",
        "type": "INT",
        "required": True,
        "default_value": None,
        "importance": "LOW",
        "documentation": "text",
        "group": "G",
        "order_in_group": 2,
        "width": "NONE",
        "display_name": "n",
        "dependents": [],
    }


def test_embedded_keys_have_the_prefix_and_one_group() -> None:
    (embedded,) = ConfigDef([key("n")]).embedded("transforms.t.", "Transforms: t", 2)
    assert (embedded.name, embedded.group, embedded.order_in_group) == (
        "transforms.t.n",
        "Transforms: t",
        2,
    )


def test_unknown_class_counts_as_missing() -> None:
    def refuse(name: str, value: object) -> None:
        raise ConfigValueError.of(name, value, "Class X could not be found.")

    definition = ConfigDef([key("c", ConfigType.CLASS, None, class_check=refuse)])
    (found,) = definition.validate({"c": "X"})
    assert found.value is None
    assert found.errors == ["Invalid value X for configuration c: Class X could not be found."]
