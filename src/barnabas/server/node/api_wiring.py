"""The dispatchers of a node: each family of handlers gets the parts that it uses."""

from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.handler_services import (
    AdminServices,
    ConfigServices,
    DataServices,
    EnvelopeServices,
    GroupServices,
    LogDirServices,
    MetadataServices,
    SecurityServices,
    TransactionServices,
)
from barnabas.server.replication.fetch_sessions import FetchSessionCache

if TYPE_CHECKING:
    from barnabas.server.api.registry import ListenerKind
    from barnabas.server.coordinators.transactions.transaction_verification import (
        Admission,
        Support,
    )
    from barnabas.server.node.node import Node


def broker_dispatcher(node: "Node") -> Dispatcher:
    """Return the dispatcher of the listeners that clients use."""
    services = {
        "admin": AdminServices(node.node_id, node.channel, node.settings),
        "configs": _config_services(node),
        "data": _data_services(node),
        "groups": _group_services(node),
        "log_dirs": _log_dir_services(node),
        "metadata": _metadata_services(node),
        "security": _security_services(node),
        "transactions": _transaction_services(node),
    }
    return _dispatcher(node, "broker", services)


def controller_dispatcher(node: "Node") -> Dispatcher:
    """Return the dispatcher of the controller listeners and of the local controller channel."""
    services = {
        "configs": _config_services(node),
        "controller": node.quorum,
        "envelope": EnvelopeServices(lambda: node.dispatchers["controller"]),
        "metadata": _metadata_services(node),
        "security": _security_services(node),
    }
    return _dispatcher(node, "controller", services)


def _dispatcher(
    node: "Node", listener: "ListenerKind", services: "Mapping[str, object]"
) -> Dispatcher:
    return Dispatcher(
        listener,
        services,
        slow_request_s=_slow_request_s(node),
        authorizer=node.authorizer,
        quotas=node.quotas,
    )


def _slow_request_s(node: "Node") -> float:
    slow_ms = node.config.get_int("barnabas.slow.request.ms")
    return slow_ms / 1000 if slow_ms >= 0 else float("inf")


def _config_services(node: "Node") -> ConfigServices:
    return ConfigServices(node.node_id, node.settings, lambda: node.quorum.image)


def _security_services(node: "Node") -> SecurityServices:
    return SecurityServices(lambda: node.quorum.image, node.settings)


def _data_services(node: "Node") -> DataServices:
    chance = tasks.local(Random)
    slots = node.config.get_int("max.incremental.fetch.session.cache.slots")
    return DataServices(
        replicas=node.replicas,
        records=node.records,
        fetch_sessions=FetchSessionCache(slots, lambda: chance.randrange(1, 1 << 31)),
        settings=node.settings,
        clock=node.clock,
        admission=partial(_admission, node),
        commits=node.commits,
        checkpoint_log_starts=partial(node.disk.run, node.logs.checkpoint_log_start_offsets),
        quotas=node.quotas,
    )


def _group_services(node: "Node") -> GroupServices:
    from barnabas.server.coordinators.internal_topics import create_internal_topic

    return GroupServices(
        image=lambda: node.quorum.image,
        groups=node.groups,
        create_internal_topic=partial(create_internal_topic, node.channel, node.settings),
    )


def _transaction_services(node: "Node") -> TransactionServices:
    return TransactionServices(
        image=lambda: node.quorum.image,
        transactions=node.transactions,
        groups=node.groups,
        replicas=node.replicas,
        settings=node.settings,
        admission=partial(_admission, node),
    )


def _admission(
    node: "Node",
    support: "Support",
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[tuple[str, int]],
) -> "Admission":
    from barnabas.server.coordinators.transactions.transaction_verification import Admission

    return Admission(
        node.transactions.verifier,
        node.settings,
        support,
        transactional_id,
        producer_id,
        producer_epoch,
        partitions,
    )


def _log_dir_services(node: "Node") -> LogDirServices:
    return LogDirServices(
        node_id=node.node_id,
        replicas=node.replicas,
        logs=node.logs,
        disk=node.disk,
        start_relocation=node.background.relocation_worker.begin,
    )


def _metadata_services(node: "Node") -> MetadataServices:
    from barnabas.server.coordinators.auto_topics import create_topics

    return MetadataServices(
        image=lambda: node.image_for_clients,
        settle_failures=node.settle_failures,
        just_ended=node.just_ended,
        kraft_version=lambda: node.quorum.core.kraft_version,
        settings=node.settings,
        controller_versions=lambda: node.channel.controller_versions(),
        create_topics=lambda names, client: create_topics(
            node.channel, node.settings, names, client
        ),
    )
