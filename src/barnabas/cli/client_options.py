"""The server side of all commands: options, connections, and errors with hints.

Everything goes through confluent-kafka (librdkafka), so that the tools work against any Kafka
server. librdkafka retries without limit; these clients stop after `--timeout`, and earlier when
every address refuses connections.
"""

from __future__ import annotations

import functools
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import FiniteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from confluent_kafka import Consumer, Producer

UNREACHABLE = 3

# Seconds in which a server that refuses connections may still be starting.
_GRACE = 2.0

_HINTS = {
    "UNKNOWN_TOPIC_OR_PART": "see barnabas topic list",
    "_UNKNOWN_TOPIC": "see barnabas topic list",
    "_UNKNOWN_PARTITION": "see barnabas topic describe",
    "TOPIC_ALREADY_EXISTS": "use --if-not-exists to accept it",
    "INVALID_REPLICATION_FACTOR": "--replicas must not exceed the number of brokers",
    "GROUP_ID_NOT_FOUND": "see barnabas group list",
    "NON_EMPTY_GROUP": "stop its members first",
    "UNKNOWN_MEMBER_ID": "stop the group's members first",
    "MSG_SIZE_TOO_LARGE": "raise the topic's max.message.bytes, or send less",
    "SECURITY_DISABLED": "start the nodes with --secure, or set authorizer.class.name",
    "TOPIC_AUTHORIZATION_FAILED": "the user lacks a permission (ACL)",
    "GROUP_AUTHORIZATION_FAILED": "the user lacks a permission (ACL)",
    "CLUSTER_AUTHORIZATION_FAILED": "the user lacks a permission (ACL)",
}

# Names of Java's clients that librdkafka does not have, or has for something else.
_JAVA_NAMES = frozenset(
    {
        "sasl.jaas.config",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

_TOKENS, _TICKETS = "OAUTHBEARER", "GSSAPI"
# librdkafka gets tokens by itself when a file says how.
_OWN_TOKENS = "sasl.oauthbearer.method"

# The broker of an error of librdkafka: `kafka-1:9092/1: ...`, or `.../bootstrap: ...`.
_BROKER = re.compile(r"(?:\w+://)?(?P<address>[^/\s]+)/(?P<broker>\d+|bootstrap): ")
_UNANSWERED = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")


def hint_of(name: str) -> str:
    """Return what to do about an error of the protocol, for the end of a line; or nothing."""
    return f"; {_HINTS[name]}" if name in _HINTS else ""


def admin_kinds() -> Any:
    """Return confluent_kafka.admin, which has too few annotations to be type-checked."""
    import confluent_kafka.admin

    return confluent_kafka.admin


class Client:
    """Creates admin clients, producers and consumers of one server, and waits for answers."""

    def __init__(self, bootstrap: str, properties: dict[str, str], timeout: float) -> None:
        self.bootstrap = bootstrap
        self.properties = properties
        self.timeout = timeout
        self._reason = ""
        self._unreached: dict[str, str] = {}
        self._denial = ""
        self._refused = False
        self._refused_at = 0.0
        self._admin: Any = None

    def settings(self, **more: object) -> dict[str, Any]:
        """Return librdkafka's settings; in the names of `more`, _ replaces the dot."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "barnabas-cli",
            "log_level": 0,
            "error_cb": self._note,
            "socket.connection.setup.timeout.ms": 10_000,
            **{name.replace("_", "."): value for name, value in more.items()},
            **self._for_librdkafka(),
        }

    def _is_for_java(self) -> bool:
        """True when librdkafka would not understand the properties as they are."""
        found = self.properties
        if _JAVA_NAMES.intersection(found):
            return True
        mechanisms = found.get("sasl.mechanism"), found.get("sasl.mechanisms")
        if _TICKETS in mechanisms:
            return True
        if _TOKENS in mechanisms:
            return _OWN_TOKENS not in found
        key_store = found.get("ssl.keystore.location")
        if key_store is None:
            return False
        from barnabas.client.client_stores import JKS, kind_of

        return kind_of(key_store, None) == JKS

    def _for_librdkafka(self) -> dict[str, Any]:
        """Return the properties; those of a file for Java's tools under librdkafka's names."""
        if not self._is_for_java():
            return self.properties
        from barnabas.config import ConfigError
        from barnabas.pipeline.delivery.plan.kafka_properties import for_librdkafka

        given = {**self.properties, "bootstrap.servers": self.bootstrap}
        try:
            return for_librdkafka(given)
        except ConfigError as error:
            raise CliError(f"{error.message}; see -X and --client-config") from None

    @property
    def admin(self) -> Any:
        """The admin client, created once."""
        if self._admin is None:
            self._admin = self._made(admin_kinds().AdminClient, self.settings())
        return self._admin

    def producer(self, **settings: object) -> Producer:
        """Return a new producer."""
        from confluent_kafka import Producer

        return self._made(Producer, self.settings(**settings))

    def consumer(self, **settings: object) -> Consumer:
        """Return a new consumer."""
        from confluent_kafka import Consumer

        return self._made(Consumer, self.settings(**settings))

    def _made(self, kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
        from confluent_kafka import KafkaException

        if self._is_for_java():
            _check_tokens(settings)
        try:
            return kind(settings)
        except KafkaException as error:
            raise CliError(f"{error.args[0].str()}; see -X and --client-config") from None

    def _note(self, error: Any) -> None:
        """Record why the server is unreachable (called by poll and consume)."""
        name = error.name()
        if name == "_ALL_BROKERS_DOWN":
            if not self._refused:
                self._refused_at = time.monotonic()
            self._refused = True
        elif name == "_AUTHENTICATION":
            self._denial = error.str().partition("failed: ")[2] or error.str()
        elif name in _UNANSWERED:
            text = error.str().partition("failed: ")[2] or error.str()
            self._reason = text.partition(" (after")[0]
            if found := _BROKER.match(error.str()):
                self._unreached[found["address"]] = found["broker"]

    def check_reachable(self, since: float) -> None:
        """Raise CliError when the server has not answered within the timeout."""
        self.admin.poll(0)  # calls _note
        waited = time.monotonic() - since
        if self._denial or waited > self.timeout or (self._refused and waited > _GRACE):
            raise self.unreachable()

    def check_lost(self, since: float) -> None:
        """Raise CliError when the server has been lost for `timeout` seconds."""
        if self._refused and time.monotonic() - max(since, self._refused_at) > self.timeout:
            raise self.unreachable()

    def unreachable(self) -> CliError:
        """Return the error for a server that does not answer, or refuses the user."""
        if self._denial:
            reason = self._denial.partition(" (after")[0].strip()
            return CliError(
                f"{self.bootstrap} refuses the user: {reason}; see -X and --client-config"
            )
        reason = f" ({self._reason.strip()})" if self._reason else ""
        given = {*self.bootstrap.split(","), "bootstrap"}
        if self._unreached and not given & {*self._unreached, *self._unreached.values()}:
            address, broker = next(iter(self._unreached.items()))
            return CliError(
                f"{self.bootstrap} answers, but names broker {broker} as {address}, which cannot "
                f"be reached{reason}; set advertised.listeners of that broker to an address that "
                "clients reach",
                UNREACHABLE,
            )
        return CliError(
            f"no Kafka server answers at {self.bootstrap}{reason}; start one with barnabas serve, "
            "or name another with --bootstrap",
            UNREACHABLE,
        )

    def answered(self) -> None:
        """Discard earlier refusals: the server has answered."""
        self._refused = False
        self._unreached.clear()

    def wait(self, future: Future[Any], what: str = "") -> Any:
        """Return one answer. Raises CliError about `what` when the server refuses the request."""
        from concurrent.futures import TimeoutError as NotYet

        from confluent_kafka import KafkaException

        started = time.monotonic()
        while True:
            try:
                return future.result(timeout=0.05)
            except NotYet:
                self.check_reachable(started)
            except KafkaException as error:
                raise self.failure(error.args[0], what) from None

    def failure(self, error: Any, what: str = "") -> CliError:
        """Return the CliError for an error of librdkafka."""
        name = error.name()
        if name in _UNANSWERED:
            return self.unreachable()
        text = (error.str() or name).strip().rstrip(".")
        subject = f"{what}: " if what else ""
        return CliError(f"{subject}{text} ({name}){hint_of(name)}")

    def metadata(self) -> Any:
        """Return the metadata of all topics: a request for one topic might create it."""
        from confluent_kafka import KafkaException

        started = time.monotonic()
        while True:
            try:
                found = self.admin.list_topics(timeout=0.5)
            except KafkaException as error:
                if error.args[0].name() not in _UNANSWERED:
                    raise self.failure(error.args[0]) from None
                self.check_reachable(started)
            else:
                self.answered()
                return found

    def check_exists(self, topics: Iterable[str]) -> None:
        """Raise CliError when the server answers that it has not one of the topics."""
        from confluent_kafka import KafkaException

        try:
            found = self.admin.list_topics(timeout=0.5).topics
        except KafkaException:
            return  # the server does not answer, which `check_lost` reports
        for topic in topics:
            if topic not in found:
                raise CliError(f"topic {topic} does not exist any longer")

    def partitions(self, topic: str) -> list[int]:
        """Return the partition numbers of a topic. Raises CliError when it does not exist."""
        found = self.metadata().topics.get(topic)
        if found is None:
            raise CliError(
                f"topic {topic} does not exist; list topics with barnabas topic list, or create "
                f"it with barnabas topic create {topic}"
            )
        if found.error is not None:
            raise self.failure(found.error, f"topic {topic}")
        return sorted(found.partitions)


def _check_tokens(settings: dict[str, Any]) -> None:
    from barnabas.client.failures import AuthenticationError
    from barnabas.pipeline.delivery.plan.librdkafka_tokens import check_tokens

    try:
        check_tokens(settings)
    except AuthenticationError as error:
        raise CliError(str(error)) from None


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a server to a command, which gets a `Client` as its first argument."""

    @click.option(
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        envvar="BARNABAS_BOOTSTRAP",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Addresses of the server.",
    )
    @click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A librdkafka setting, for example security.protocol=SSL; repeatable.",
    )
    @click.option(
        "--client-config",
        "--command-config",
        "client_config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file with settings of librdkafka, or of Java's tools: one NAME=VALUE per line.",
    )
    @click.option(
        "--timeout",
        type=FiniteRange(min=0.1),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="Time to wait for an answer.",
    )
    @functools.wraps(command)
    def wrapped(
        bootstrap: str,
        properties: tuple[str, ...],
        client_config: Path | None,
        timeout: float,
        **options: Any,
    ) -> Any:
        settings: dict[str, str] = {}
        if client_config is not None:
            from barnabas.config import ConfigError, properties_file

            try:
                settings.update(properties_file.read(client_config))
            except ConfigError as error:
                raise CliError(error.message) from None
        source = click.get_current_context().get_parameter_source("bootstrap")
        if source is click.core.ParameterSource.COMMANDLINE:  # stronger than a file, as for Java's
            settings["bootstrap.servers"] = bootstrap
        settings.update(pairs(properties, "-X"))
        bootstrap = settings.pop("bootstrap.servers", bootstrap)
        return command(Client(bootstrap, settings, timeout), **options)

    return wrapped


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE texts."""
    read: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"Invalid value {text!r} for {option}: it must be NAME=VALUE.")
        read[name.strip()] = value
    return read


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> Sequence[str]:
    """Return the topics of the server that complete a name, when it answers at once."""
    try:
        client = Client(context.params.get("bootstrap") or "127.0.0.1:9092", {}, 1.0)
        return [name for name in client.metadata().topics if name.startswith(incomplete)]
    except Exception:  # a failed completion is empty
        return []
