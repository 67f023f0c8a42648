"""Which version of each api to send to one broker."""

from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.client.failures import UnsupportedVersionError
from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS_KEY: Final = ApiVersionsRequest.API_KEY


@attrs.frozen
class ApiTable:
    """The versions that one broker serves, by api key."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """The finalized levels of the cluster's features, from brokers since 2.7."""

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> "ApiTable":
        """Return the table of a successful ApiVersions response."""
        return cls(
            {item.api_key: (item.min_version, item.max_version) for item in response.api_keys},
            {item.name: item.max_version_level for item in response.finalized_features},
        )

    def choose(self, api_key: int, max_version: int | None = None) -> int:
        """Return the highest version that both sides speak, at most `max_version`.

        Raises UnsupportedVersionError when there is none.
        """
        api = API[api_key]
        lowest, highest = self.ranges.get(api_key, (0, -1))
        stable = api.max_version - api.latest_unstable
        version = min(stable, highest, stable if max_version is None else max_version)
        if version < max(api.min_version, lowest):
            served = f"serves {lowest} to {highest}" if highest >= 0 else "does not serve it"
            raise UnsupportedVersionError(
                f"no common version of {api.name}: this client sends "
                f"{api.min_version} to {stable}, the broker {served}"
            )
        return version


def next_api_versions_version(sent: int, response: ApiVersionsResponse) -> int | None:
    """Return the version for the next request after UNSUPPORTED_VERSION, None when there is none.

    A broker that does not know the request's version answers in version 0 and lists its own range
    of ApiVersions (KIP-511). The next request has version 0 when it lists nothing.
    """
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION or sent == 0:
        return None
    for item in response.api_keys:
        if item.api_key == API_VERSIONS_KEY:
            return max(min(item.max_version, sent - 1), 0)
    return 0
