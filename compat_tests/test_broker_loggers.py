"""BROKER_LOGGER resources: the levels of a broker's loggers, read and changed at run time."""

import pytest

from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from compat_tests.wire import call

BROKER_LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
INVALID_CONFIG, INVALID_REQUEST = 40, 42
DYNAMIC_BROKER_LOGGER_CONFIG = 6
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
VALID = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


def describe(bootstrap, name="1", keys=None):
    """Return the error code, the message and the entries of a DescribeConfigs result."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=name, configuration_keys=keys
    )
    (result,) = call(bootstrap, DescribeConfigsRequest(resources=[resource]), 4).results
    return result.error_code, result.error_message, result.configs


def levels(bootstrap, keys=None) -> dict[str, str]:
    code, _, configs = describe(bootstrap, keys=keys)
    assert code == 0
    return {config.name: config.value for config in configs}


def alter(bootstrap, *changes, name="1", validate_only=False) -> tuple[int, str | None]:
    """Return the code and the message of an IncrementalAlterConfigs result."""
    data = IncrementalAlterConfigsRequest
    resource = data.AlterConfigsResource(
        resource_type=BROKER_LOGGER,
        resource_name=name,
        configs=[data.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes],
    )
    (result,) = call(
        bootstrap, data(resources=[resource], validate_only=validate_only), 1
    ).responses
    return result.error_code, result.error_message


@pytest.fixture
def logger(bootstrap):
    """Yield the name of a logger other than root; its level and root's are restored afterwards."""
    before = levels(bootstrap)
    name = list(before)[-1]
    yield name
    assert alter(bootstrap, (name, DELETE, None), ("root", SET, before["root"])) == (0, None)


def test_broker_loggers_are_described_root_first(bootstrap) -> None:
    code, _, configs = describe(bootstrap)
    assert code == 0
    assert configs[0].name == "root"
    assert len(configs) > 1
    for config in configs:
        assert config.value in LEVELS
        assert (config.config_source, config.read_only, config.is_sensitive, config.synonyms) == (
            DYNAMIC_BROKER_LOGGER_CONFIG,
            False,
            False,
            [],
        )
    assert list(levels(bootstrap, ["nope", "root"])) == ["root"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Broker id must not be empty"),
        ("2", "Unexpected broker id, expected 1 but received 2"),
        ("x", "Broker id must be an integer, but it is: x"),
    ],
)
def test_broker_loggers_of_another_broker_are_not_described(bootstrap, name, message) -> None:
    assert describe(bootstrap, name) == (INVALID_REQUEST, message, [])


@pytest.mark.parametrize("level", LEVELS)
def test_broker_logger_level_changes_until_it_is_deleted(bootstrap, logger, level) -> None:
    assert alter(bootstrap, (logger, SET, level)) == (0, None)
    assert levels(bootstrap)[logger] == level
    assert alter(bootstrap, (logger, DELETE, None)) == (0, None)
    assert levels(bootstrap)[logger] == levels(bootstrap)["root"]


def test_broker_logger_follows_the_level_of_root(bootstrap, logger) -> None:
    assert alter(bootstrap, ("root", SET, "WARN")) == (0, None)
    assert levels(bootstrap, ["root", logger]) == {"root": "WARN", logger: "WARN"}


def test_broker_logger_changes_with_validate_only_change_nothing(bootstrap, logger) -> None:
    before = levels(bootstrap)
    assert alter(bootstrap, (logger, SET, "TRACE"), validate_only=True) == (0, None)
    assert levels(bootstrap) == before


def test_broker_logger_changes_are_all_or_nothing(bootstrap, logger) -> None:
    before = levels(bootstrap)
    code, message = alter(bootstrap, (logger, SET, "TRACE"), ("root", SET, "LOUD"))
    assert code == INVALID_CONFIG
    assert message == (
        f"Cannot set the log level of root to LOUD as it is not a supported log level. {VALID}"
    )
    assert levels(bootstrap) == before


REFUSED = [
    ([("no.such", SET, "INFO")], INVALID_CONFIG, "Logger no.such does not exist!"),
    ([("no.such", DELETE, None)], INVALID_CONFIG, "Logger no.such does not exist!"),
    ([("ROOT", SET, "INFO")], INVALID_CONFIG, "Logger ROOT does not exist!"),
    (
        [("root", SET, "debug")],
        INVALID_CONFIG,
        f"Cannot set the log level of root to debug as it is not a supported log level. {VALID}",
    ),
    (
        [("root", SET, "")],
        INVALID_CONFIG,
        f"Cannot set the log level of root to  as it is not a supported log level. {VALID}",
    ),
    (
        [("root", DELETE, None)],
        INVALID_REQUEST,
        "Removing the log level of the root logger is not allowed",
    ),
    (
        [("no.such", APPEND, "INFO")],
        INVALID_REQUEST,
        "APPEND operation is not allowed for the BROKER_LOGGER resource",
    ),
    (
        [("root", SUBTRACT, "INFO")],
        INVALID_REQUEST,
        "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
    ),
    (
        [("a", SET, None), ("root", APPEND, None)],
        INVALID_REQUEST,
        "Null value not supported for : a, root",
    ),
    (
        [("root", SET, None), ("root", SET, "INFO")],
        INVALID_REQUEST,
        "Error due to duplicate config keys",
    ),
]


@pytest.mark.parametrize(("changes", "code", "message"), REFUSED)
def test_broker_logger_change_that_is_invalid_is_refused(bootstrap, changes, code, message) -> None:
    assert alter(bootstrap, *changes) == (code, message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2", "Unexpected node id. Expected 1, but received 2"),
        ("", "Node id must be an integer, but it is: "),
        ("x", "Node id must be an integer, but it is: x"),
    ],
)
def test_broker_logger_change_of_another_broker_is_refused(bootstrap, name, message) -> None:
    assert alter(bootstrap, ("root", SET, "INFO"), name=name) == (INVALID_REQUEST, message)


def test_broker_logger_named_twice_is_refused_twice(bootstrap) -> None:
    data = IncrementalAlterConfigsRequest
    change = data.AlterableConfig(name="root", config_operation=SET, value="INFO")
    resource = data.AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configs=[change]
    )
    results = call(bootstrap, data(resources=[resource, resource]), 1).responses
    message = "Each resource must appear at most once."
    assert [(r.error_code, r.error_message) for r in results] == [(INVALID_REQUEST, message)] * 2


def test_broker_loggers_are_not_changed_by_the_older_alter_configs(bootstrap) -> None:
    change = AlterConfigsRequest.AlterableConfig(name="root", value="INFO")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configs=[change]
    )
    (result,) = call(bootstrap, AlterConfigsRequest(resources=[resource]), 1).responses
    assert (result.error_code, result.error_message) == (
        INVALID_REQUEST,
        "Unknown resource type 8",
    )
