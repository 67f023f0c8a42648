"""Requests of `barnabas mirror` to the clusters of a flow, with failures in one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.client_options import UNREACHABLE
from barnabas.cli.command_errors import CliError
from barnabas.cli.mirror_options import UNUSABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from barnabas.pipeline.mirror.flow_preview import TopicPreview
    from barnabas.pipeline.mirror.flow_reversal import Reversal

T = TypeVar("T")


def previewed(config: Mapping[str, str]) -> tuple[Sequence[TopicPreview], str]:
    """Return what a flow would copy: topics, and a sentence on ACLs. Raises CliError."""
    from barnabas.client import open_client
    from barnabas.pipeline.mirror.flow_connector import flow_settings
    from barnabas.pipeline.mirror.flow_driver import FlowTopics
    from barnabas.pipeline.mirror.flow_preview import acl_preview, preview

    async def ask() -> tuple[Sequence[TopicPreview], str]:
        settings = flow_settings(config, {})
        wanted = FlowTopics((), config["topics.regex"])
        async with open_client(settings.source) as source, open_client(settings.target) as target:
            topics = await preview(settings, wanted, source, target)
            names = [each.topic for each in topics]
            return topics, await acl_preview(settings, names, source, target)

    return run_requests(ask)


def promoted(flow: str, target: str, topics: Sequence[str], file: str | None) -> Sequence[str]:
    """Promote the mirrors of a flow, or those named; return their names. Raises CliError."""
    from barnabas.client import open_client
    from barnabas.client.client_config import ClientConfig
    from barnabas.config import ConfigError
    from barnabas.pipeline.mirror.flow_promotion import mirror_topics, promote

    async def ask() -> Sequence[str]:
        async with open_client(settings) as client:
            found = await mirror_topics(client, flow)
            missing = [name for name in topics if name not in found]
            if missing or not found:
                what = f"topic {missing[0]} is not a mirror" if missing else "no topic is a mirror"
                raise CliError(
                    f"{what} of flow {flow} at {target}; see barnabas config describe topic"
                )
            chosen = list(topics) or found
            await promote(client, chosen)
            return chosen

    try:
        path = None if file is None else Path(file)
        settings = ClientConfig.load(path, {"bootstrap.servers": target})
    except ConfigError as error:
        raise CliError(error.message, UNUSABLE) from None
    return run_requests(ask)


def reversal_plan(flow: str, config: Mapping[str, str]) -> Reversal:
    """Return how a flow is reversed; `config` is that of the reverse flow. Raises CliError."""
    from barnabas.client import open_client
    from barnabas.pipeline.mirror.flow_connector import flow_settings
    from barnabas.pipeline.mirror.flow_reversal import reversal

    async def ask() -> Reversal:
        settings = flow_settings(config, {})
        async with open_client(settings.target) as old, open_client(settings.source) as promoted:
            return await reversal(flow, old, promoted)

    return run_requests(ask)


def prepared_reversal(plan: Reversal, config: Mapping[str, str]) -> None:
    """Make the old source the target of the reverse flow. Raises CliError."""
    from barnabas.client import open_client
    from barnabas.pipeline.mirror.flow_connector import flow_settings
    from barnabas.pipeline.mirror.flow_reversal import prepare

    async def ask() -> None:
        settings = flow_settings(config, {})
        async with open_client(settings.target) as old, open_client(settings.source) as promoted:
            await promoted.refresh_metadata()
            is_identical = settings.is_identical
            await prepare(plan, settings.flow, old, promoted, is_identical=is_identical)

    run_requests(ask)


def run_requests(ask: Callable[[], Awaitable[T]]) -> T:
    """Run a call.

    Raises CliError for a flow that is refused, and a cluster that refuses or does not answer.
    """
    import trio

    from barnabas.client import ClientError
    from barnabas.pipeline.definitions.config_types import ConfigValueError
    from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsetsError
    from barnabas.pipeline.mirror.topic_following import FlowRefusedError
    from barnabas.protocol.errors import KafkaError

    try:
        return trio.run(ask)
    except ConfigValueError as error:
        raise CliError(str(error), UNUSABLE) from None
    except FlowRefusedError as error:
        raise CliError(str(error)) from None
    except KafkaError as error:
        raise CliError(f"a cluster refuses a request: {error} ({error.code.name})") from None
    except (ClientError, GroupOffsetsError) as error:
        raise CliError(f"a cluster does not answer: {error}", UNREACHABLE) from None
