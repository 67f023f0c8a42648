"""ApiVersions: the apis of this listener; the first request of every modern client.

Versions 0-4. A newer version is answered with UNSUPPORTED_VERSION in the layout of v0, so that the
client can choose a common one (KIP-511). The response has the cluster's finalized features. Before
v4 it omits supported features whose lowest level is 0 (KIP-1022).
"""

import re
from typing import Any

from barnabas.cluster.metadata.feature_levels import KRAFT_VERSION, SUPPORTED, served
from barnabas.protocol.apis import API, FORWARDABLE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.server.api.dispatch import API_VERSIONS
from barnabas.server.api.handler_services import MetadataContext
from barnabas.server.api.registry import REGISTRY

# org.apache.kafka.common.requests.ApiVersionsRequest: software names and versions must match.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
_FEATURES_FROM_ZERO_SINCE = 4


def api_versions(ctx: MetadataContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """Return the apis of the listener; `request` is None when its version is unknown."""
    if request is None:
        low, high = API[API_VERSIONS].advertised
        key = ApiVersionsResponse.ApiVersion(
            api_key=API_VERSIONS, min_version=low, max_version=high
        )
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[key])
    if ctx.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=_api_keys(ctx))
    if ctx.version >= _SOFTWARE_SINCE:
        _add_features(ctx, response)
    return response


def _api_keys(ctx: MetadataContext) -> list[Any]:
    """Return the listener's apis; those that a broker forwards as far as the controller serves
    them.
    """
    served = {line.api.key: line.api.advertised for line in REGISTRY[ctx.route.listener].values()}
    controller = ctx.services.controller_versions() if ctx.route.listener == "broker" else None
    if controller is not None:
        for key in served.keys() & FORWARDABLE:
            (low, high), (lowest, highest) = served[key], controller.get(key, (0, -1))
            served[key] = max(low, lowest), min(high, highest)
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in served.items()
        if low <= high
    ]


def _add_features(ctx: MetadataContext, response: ApiVersionsResponse) -> None:
    lowest = 0 if ctx.version >= _FEATURES_FROM_ZERO_SINCE else 1
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in SUPPORTED.items()
        if low >= lowest
    ]
    image = ctx.services.image()
    # The kraft.version is in the quorum's control records, not in its metadata.
    finalized = {**image.features, KRAFT_VERSION: ctx.services.kraft_version()}
    response.finalized_features_epoch = image.offset
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(
            name=name, max_version_level=level, min_version_level=level
        )
        for name, level in served(finalized).items()
    ]
