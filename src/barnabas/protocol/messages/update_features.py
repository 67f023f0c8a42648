"""UpdateFeatures: change the finalized levels of features."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class UpdateFeaturesRequest(Message, api="UpdateFeatures"):
    """The requested levels, and whether only to validate them."""

    class FeatureUpdateKey(Struct):
        feature: str = string()
        max_version_level: int = int16()
        allow_downgrade: bool = boolean(versions="0")
        upgrade_type: int = int8(versions="1+", default=1)

    timeout_ms: int = int32(default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = array("FeatureUpdateKey")
    validate_only: bool = boolean(versions="1+")


class UpdateFeaturesResponse(Message, api="UpdateFeatures"):
    """The result of the request or of each feature: whether the level was accepted."""

    class UpdatableFeatureResult(Struct):
        feature: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = array(
        "UpdatableFeatureResult", versions="0-1", ignorable=True
    )
