"""ApiVersions: which apis and features a server supports; the first request of most connections."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class ApiVersionsRequest(Message, api="ApiVersions"):
    """The client software that asks for the served versions."""

    client_software_name: str = string(versions="3+", ignorable=True)
    client_software_version: str = string(versions="3+", ignorable=True)


class ApiVersionsResponse(Message, api="ApiVersions"):
    """Each api's versions, and the supported and finalized features."""

    class ApiVersion(Struct):
        api_key: int = int16()
        min_version: int = int16()
        max_version: int = int16()

    class SupportedFeatureKey(Struct):
        name: str = string()
        min_version: int = int16()
        max_version: int = int16()

    class FinalizedFeatureKey(Struct):
        name: str = string()
        max_version_level: int = int16()
        min_version_level: int = int16()

    error_code: int = int16()
    api_keys: list[ApiVersionsResponse.ApiVersion] = array("ApiVersion")
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = array(
        "SupportedFeatureKey", versions="3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64(versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = array(
        "FinalizedFeatureKey", versions="3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean(versions="3+", tag=3, ignorable=True)
