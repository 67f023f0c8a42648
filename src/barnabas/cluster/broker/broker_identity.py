"""The identity under which a broker takes part in the cluster."""

import attrs

from barnabas.protocol.types import Uuid

NO_EPOCH = -1


@attrs.frozen(slots=True)
class BrokerIdentity:
    """A broker's id, the incarnation of this process, its epoch, and its directories.

    The controller assigns the epoch; it is -1 until the broker is registered. `BrokerLifecycle`
    owns the value, and others read it from there.
    """

    id: int
    incarnation_id: Uuid
    directory_ids: tuple[Uuid, ...] = ()
    epoch: int = NO_EPOCH
