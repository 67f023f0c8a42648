"""Raise and lower the finalized levels of features (Kafka's `FeatureControlManager`).

A request is applied as a whole or not at all. Error codes and messages are those of Kafka 4.3.
"""

from collections.abc import Mapping

from barnabas.cluster.controller.election_rules import MIN_INSYNC_REPLICAS
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED,
    metadata_changed,
)
from barnabas.cluster.metadata.image import RESOURCE_BROKER, MetadataImage
from barnabas.config import BROKER_PROPERTIES
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import ConfigRecord, FeatureLevelRecord, NoOpRecord

# org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
# Up to v1 the response has a result for each update; Kafka's message for a success is "NONE".
_RESULTS_UNTIL = 1
_MADE = "NONE"
_DISABLED = (0, 0)
# Features that Kafka supports and this server does not: they can be removed, but not set.
_KNOWN = frozenset({SHARE_VERSION, STREAMS_VERSION, *SUPPORTED})
_CONTROLLERS_REGISTER_SINCE = 15  # IBP_3_7_IV0


def update_features(
    context: Context, kraft_version: int, request: UpdateFeaturesRequest, version: int
) -> ControllerResult[UpdateFeaturesResponse]:
    """Finalize the requested levels, or with `validate_only` only check them.

    The last update of a feature counts. Before v1 no level can be lowered: Kafka's controllers do
    not read `allow_downgrade`.
    """
    image = context.image
    updates = {update.feature: update for update in request.feature_updates}
    levels = {name: update.max_version_level for name, update in updates.items()}
    proposed = {**image.features, **levels}
    records: list[Message] = []
    new_kraft_version: int | None = None
    try:
        for update in updates.values():
            level = update.max_version_level
            _check(image, _current(image, kraft_version, update.feature), update)
            _check_dependency(update, proposed)
            if update.feature != KRAFT_VERSION:
                records.append(FeatureLevelRecord(name=update.feature, feature_level=level))
            elif update.upgrade_type == UPGRADE:
                # The quorum writes its version itself; the operation waits for the NoOp record.
                records.append(NoOpRecord())
                new_kraft_version = level if level > kraft_version else None
    except KafkaError as error:
        message = (
            "The update failed for all features since the following feature had an error: "
            f"{error.message}"
        )
        refusal = UpdateFeaturesResponse(error_code=error.code, error_message=message)
        return ControllerResult([], refusal)
    response = UpdateFeaturesResponse(error_message=None)
    if version <= _RESULTS_UNTIL:
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        response.results = [
            result(feature=update.feature, error_message=_MADE)
            for update in request.feature_updates
        ]
    if request.validate_only:
        return ControllerResult([], response)
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records = [*min_isr_records(context), *records]
    return ControllerResult(records, response, kraft_version=new_kraft_version)


def min_isr_records(context: Context) -> list[Message]:
    """Return the changes of min.insync.replicas that eligible leader replicas require.

    All nodes must know the same value, so it is set for the cluster, and for no single broker.
    """
    configs = context.image.configs
    records: list[Message] = []
    if MIN_INSYNC_REPLICAS not in context.image.broker_config(None):
        text = context.config.static.get(MIN_INSYNC_REPLICAS)
        default = str(BROKER_PROPERTIES[MIN_INSYNC_REPLICAS].default)
        records.append(_min_isr_record("", default if text is None else text))
    records += [
        _min_isr_record(name, None)
        for (kind, name), values in configs.items()
        if kind == RESOURCE_BROKER and name and MIN_INSYNC_REPLICAS in values
    ]
    return records


def _min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )


def _current(image: MetadataImage, kraft_version: int, feature: str) -> int:
    return kraft_version if feature == KRAFT_VERSION else image.features.get(feature, 0)


def _check(
    image: MetadataImage, current: int, update: UpdateFeaturesRequest.FeatureUpdateKey
) -> None:
    """Raises KafkaError INVALID_UPDATE_VERSION unless the update is allowed."""
    feature, level, kind = update.feature, update.max_version_level, update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    reason = _reason_not_supported(image, feature, level)
    if reason is not None:
        raise _invalid(update, reason)
    if level < current and kind == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if feature == METADATA_VERSION:
        _check_metadata_downgrade(current, level, unsafe=kind == UNSAFE_DOWNGRADE)
    elif feature == KRAFT_VERSION and level < current:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    elif feature not in _KNOWN:
        raise _invalid(update, f"Feature {feature} not found.")


def _check_dependency(
    update: UpdateFeaturesRequest.FeatureUpdateKey, proposed: Mapping[str, int]
) -> None:
    """Raises KafkaError INVALID_UPDATE_VERSION when another feature's level is too low."""
    feature, level = update.feature, update.max_version_level
    needed = ELIGIBLE_LEADER_REPLICAS_SINCE
    if feature != ELIGIBLE_LEADER_REPLICAS_VERSION or level == 0:
        return
    if proposed.get(METADATA_VERSION, 0) < needed:
        raise _invalid(
            update,
            f"{feature} could not be set to {level} because it depends on {METADATA_VERSION} level "
            f"{needed}",
        )


def _check_metadata_downgrade(current: int, level: int, *, unsafe: bool) -> None:
    if level >= current or not metadata_changed(level, current):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata "
        "information."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
    )


def _invalid(update: UpdateFeaturesRequest.FeatureUpdateKey, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _reason_not_supported(image: MetadataImage, feature: str, level: int) -> str | None:
    """Return why some node does not support the level, or None when all nodes do."""
    nodes = [(f"Local controller {image.controller_id}", SUPPORTED)]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in image.brokers.values()]
    if image.features.get(METADATA_VERSION, 0) >= _CONTROLLERS_REGISTER_SINCE:
        nodes += [
            (f"Controller {controller.id}", controller.features)
            for controller in image.controllers.values()
            if controller.id != image.controller_id
        ]
    for node, features in nodes:
        low, high = features.get(feature, _DISABLED)
        if low <= level <= high:
            continue
        if high == 0:
            return f"{node} does not support this feature."
        return f"{node} only supports versions {low if low == high else f'{low}-{high}'}"
    return None
