"""Short names that the property tables are written in, and the rules that need code."""

from barnabas.config.schema import Check, Dynamic, Importance, Property, Type

P = Property

# Why a property that promises something stops the start while the feature does not exist.
NO_SASL = "barnabas does not support SASL and would serve clients without authentication"
NO_JAVA_CLASSES = "barnabas cannot load Java classes"
NO_TIERED_STORAGE = "barnabas does not support tiered storage"

BOOLEAN, STRING, INT, SHORT = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT
LONG, DOUBLE, LIST = Type.LONG, Type.DOUBLE, Type.LIST
CLASS, PASSWORD = Type.CLASS, Type.PASSWORD

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
PER_BROKER, CLUSTER_WIDE = Dynamic.PER_BROKER, Dynamic.CLUSTER_WIDE

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308


def _gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "it must be between 1 and 9, or -1"


def _throttled_replicas(members: tuple[str, ...] | None) -> str | None:
    """Accept `*`, nothing, or partition:broker pairs (`ThrottledReplicaListValidator`)."""
    if members is None or members in ((), ("*",)):
        return None
    for member in members:
        partition, _, broker = member.partition(":")
        if not (partition.strip().isdecimal() and broker.strip().isdecimal()):
            return "it must be * or a list of partition:broker pairs, as 0:1,1:2"
    return None


def _port(text: str) -> int:
    if not (text.isdecimal() and len(text) < 6 and int(text) < 65536):
        raise ValueError
    return int(text)


def _host_and_port(text: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port`; ValueError where it is neither."""
    host, colon, port = text.rpartition(":")
    if not (colon and host):
        raise ValueError
    return host.removeprefix("[").removesuffix("]"), _port(port)


def _quorum_voters(members: tuple[str, ...] | None) -> str | None:
    if members is None:
        return "it must be a list of id@host:port"
    for member in members:
        voter, _, address = member.partition("@")
        try:
            _host_and_port(address)
            valid = voter.isdecimal()
        except ValueError:
            valid = False
        if not valid:
            return "it must be a list of id@host:port, as 1@localhost:9093"
    return None


def _bootstrap_servers(members: tuple[str, ...] | None) -> str | None:
    if members is None:
        return "it must be a list of host:port"
    for member in members:
        try:
            _host_and_port(member)
        except ValueError:
            return "it must be a list of host:port, as localhost:9093"
    return None


# By name and by Kafka's class.
_KAFKA_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor."
_ASSIGNORS = {
    "uniform": "uniform",
    "range": "range",
    f"{_KAFKA_ASSIGNOR}UniformAssignor": "uniform",
    f"{_KAFKA_ASSIGNOR}RangeAssignor": "range",
}


def _assignors(members: tuple[str, ...] | None) -> str | None:
    """Look at the form alone: a client's request must not have a module imported."""
    if not members:
        return "it must not be empty"
    seen: set[str] = set()
    for member in members:
        name = _ASSIGNORS.get(member, member)
        module, colon, own = member.partition(":")
        path = [*module.split("."), own] if colon else [""]
        if member not in _ASSIGNORS and not all(part.isidentifier() for part in path):
            return f"{member} is not an assignor; give uniform, range or module:Class"
        if name in seen:
            return f"{name} is in the list twice"
        seen.add(name)
    return None


_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _authorizer(value: str | None) -> str | None:
    if value in ("", _STANDARD_AUTHORIZER):
        return None
    return f"barnabas cannot load Java classes; it has only {_STANDARD_AUTHORIZER}"


def _principals(value: str | None) -> str | None:
    for each in (value or "").split(";"):
        if each.strip() and ":" not in each:
            return (
                "expected a string in format principalType:principalName but got "
                f"{each.strip()}; give the principals as User:admin;User:other"
            )
    return None


def _share_offset_reset(value: str | None) -> str | None:
    """Accept latest, earliest or `by_duration:` and an ISO 8601 duration (KIP-932)."""
    if value in ("latest", "earliest"):
        return None
    prefix, _, duration = (value or "").partition(":")
    if prefix == "by_duration" and _is_duration(duration):
        return None
    return "it must be latest, earliest or by_duration:PnDTnHnMn.nS, as by_duration:PT1H"


def _is_duration(text: str) -> bool:
    import re

    parts = r"P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?"
    return re.fullmatch(parts, text, re.IGNORECASE | re.ASCII) is not None


GZIP_LEVEL = Check("[1,...,9] or -1", _gzip_level)
THROTTLED_REPLICAS = Check(
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...", _throttled_replicas
)
QUORUM_VOTERS = Check("non-empty list", _quorum_voters)
BOOTSTRAP_SERVERS = Check("non-empty list", _bootstrap_servers)
ASSIGNORS = Check("", _assignors)
AUTHORIZER = Check("non-null string", _authorizer)
PRINCIPALS = Check("", _principals)
SHARE_OFFSET_RESET = Check("[latest, earliest, by_duration:PnDTnHnMn.nS]", _share_offset_reset)
