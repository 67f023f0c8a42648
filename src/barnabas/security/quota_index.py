"""Which quota concerns a client: the most specific one (Kafka's `DefaultQuotaCallback`).

A quota of a user and a client id comes before one of the user, and that before one of the client
id; a name comes before the default. Clients that the same default concerns have separate rates.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.metadata.client_quotas import CLIENT_ID, USER, QuotaEntity

Bucket = tuple[str, str]
"""The user and the client id whose requests count together; empty where any of them counts."""

_ANY: Final = ""  # no entity has this name
_DEFAULT: Final = None
_Level = tuple[str | None, str | None]


class QuotaIndex:
    """The quotas of one key, such as `producer_byte_rate`."""

    __slots__ = ("_limits",)

    def __init__(self, quotas: Iterable[tuple[QuotaEntity, float]]) -> None:
        self._limits: dict[_Level, float] = {}
        for entity, limit in quotas:
            names = dict(entity)
            self._limits[names.get(USER, _ANY), names.get(CLIENT_ID, _ANY)] = limit

    def find(self, user: str, client_id: str) -> tuple[Bucket, float] | None:
        """Return the limit of a client, and with whom it is shared; None for no quota.

        A client without a client id has the quotas of users only.
        """
        limits = self._limits
        for each_user in (user, _DEFAULT):
            if client_id:
                for each_id in (client_id, _DEFAULT):
                    limit = limits.get((each_user, each_id))
                    if limit is not None:
                        return (user, client_id), limit
            limit = limits.get((each_user, _ANY))
            if limit is not None:
                return (user, _ANY), limit
        if client_id:
            for each_id in (client_id, _DEFAULT):
                limit = limits.get((_ANY, each_id))
                if limit is not None:
                    return (_ANY, client_id), limit
        return None
