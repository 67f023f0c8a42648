"""`barnabas inspect`: Kafka's bytes as fields, from hex, files, captures or a live connection."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.inspect.conversation import Frame
    from barnabas.inspect.field_tree import Node
    from barnabas.inspect.frame_view import DecodedFrame
    from barnabas.inspect.rendering import Heading, Style
    from barnabas.protocol.apis import ApiKey
    from barnabas.protocol.messages_base import Message

Address = tuple[str, int]


@click.command()
@click.argument("source", required=False)
@click.option("--hex", "hex_text", metavar="TEXT", help="The bytes, in hex.")
@click.option(
    "--response",
    metavar="API:VERSION",
    help="Decode the frames as responses to this api, for example Fetch:12.",
)
@click.option(
    "--message",
    metavar="NAME:VERSION",
    help="Decode one message without a header, for example TopicRecord:0.",
)
@click.option("--batches", is_flag=True, help="Decode record batches, as in a segment.")
@click.option(
    "--topic",
    metavar="NAME",
    help="The topic of the batches. [default: that of the directory with SOURCE]",
)
@click.option(
    "--listen", metavar="[HOST:]PORT", help="Forward connections from this address, and show them."
)
@click.option("--to", metavar="HOST:PORT", help="The server that --listen forwards to.")
@click.option(
    "--no-rewrite", is_flag=True, help="Do not rewrite the addresses in the server's answers."
)
@click.option("--port", type=int, help="The server's port in a capture. [default: all]")
@click.option("--api", "apis", multiple=True, help="Show only this API; repeatable.")
@click.option("--summary", is_flag=True, help="Print one line for each frame, without fields.")
@click.option("--full", is_flag=True, help="Do not shorten long values.")
@click.option("--colour/--no-colour", default=None, help="[default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each frame.")
def inspect(source: str | None, hex_text: str | None, **options: Any) -> None:
    """Show Kafka's bytes as fields.

    SOURCE is a file: a pcap or pcapng capture, frames with their lengths, or hex; - is standard
    input. It may be hex itself. With --listen and --to, connections to a server are shown live.
    Credentials are never shown.
    """
    screen = _Screen(options)
    if options["listen"] is not None or options["to"] is not None:
        if options["listen"] is None or options["to"] is None or source or hex_text:
            raise click.UsageError("--listen and --to must be used together, without a SOURCE.")
        _proxy(screen, options)
        return
    if (source is None) == (hex_text is None):
        raise click.UsageError("Use a SOURCE, --hex, or --listen with --to.")
    data, name = _bytes(source, hex_text)
    if options["message"]:
        screen.message(*_message(options["message"]), data)
    elif options["batches"]:
        screen.batches(data, options["topic"] or _topic_of(name))
    else:
        _frames(screen, data, name, options)


class _Screen:
    """Prints frames as text or JSON, all of them or only those of some APIs."""

    def __init__(self, options: dict[str, Any]) -> None:
        from barnabas.inspect.rendering import Style

        colours = options["colour"]
        self.style: Style = Style(
            colours=sys.stdout.isatty() if colours is None else colours,
            length_max=0 if options["full"] else 80,
        )
        self.as_json: bool = options["as_json"]
        self.summary: bool = options["summary"]
        self.apis = {_api(name).key for name in options["apis"]}

    def show(self, decoded: DecodedFrame, heading: Heading) -> None:
        """Show a frame."""
        from barnabas.inspect.rendering import as_json, text_lines

        if self.apis and (decoded.api is None or decoded.api.key not in self.apis):
            return
        if self.summary:
            decoded = decoded._replace(fields=())
        if self.as_json:
            click.echo(json.dumps(as_json(decoded, heading), ensure_ascii=False))
        else:
            lines = "\n".join(text_lines(decoded, heading, self.style))
            click.echo(lines if self.summary else f"{lines}\n", color=self.style.colours)
        sys.stdout.flush()

    def frame(self, frame: Frame, heading: Heading) -> None:
        """Show a frame of a conversation."""
        if not self.apis or (frame.api is not None and frame.api.key in self.apis):
            self.show(frame.decode(), heading)

    def message(self, message: type[Message], version: int, data: bytes) -> None:
        """Show a message without a header. Raises CliError when the bytes do not match it."""
        from barnabas.inspect.frame_view import decode_message

        nodes, problem = decode_message(message, version, data)
        self._nodes(f"{message.__name__} v{version}", nodes)
        if problem:
            raise CliError(problem)

    def batches(self, data: bytes, topic: str) -> None:
        """Show record batches; the records of Kafka's own topics are decoded."""
        from barnabas.inspect.batch_view import INTERNAL_TOPICS, batch_nodes

        self._nodes("batches", batch_nodes(data, 0, len(data), INTERNAL_TOPICS.get(topic)))

    def _nodes(self, name: str, nodes: tuple[Node, ...]) -> None:
        from barnabas.inspect.rendering import field_lines, fields_json

        if self.as_json:
            click.echo(json.dumps({"name": name, "fields": fields_json(nodes)}, ensure_ascii=False))
            return
        click.echo(self.style.paint("request", name), color=self.style.colours)
        for line in field_lines(nodes, self.style):
            click.echo(line, color=self.style.colours)


def _bytes(source: str | None, hex_text: str | None) -> tuple[bytes, str]:
    """Return the bytes of the source, and its name in errors."""
    if hex_text is not None:
        data = _from_hex(hex_text)
        if data is None:
            raise CliError(f"Invalid value {hex_text!r} for --hex: it is not hex")
        return data, "--hex"
    if source is None or source == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    elif not Path(source).exists() and (found := _from_hex(source)) is not None:
        return found, "the hex given"
    else:
        data, name = Path(source).read_bytes(), source
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return data, name
    found = _from_hex(text)
    return (data if found is None else found), name


def _topic_of(name: str) -> str:
    """Return the topic of a file in a data directory; any text for another file."""
    path = Path(name).absolute()
    if path.suffix == ".checkpoint":  # a snapshot, or `bootstrap.checkpoint` beside the topics
        return "__cluster_metadata"
    return path.parent.name.rpartition("-")[0]


def _from_hex(text: str) -> bytes | None:
    """The bytes of "0000 12ab", "00:00:12:ab" or "0x000012ab"; None when it is not hex."""
    bare = "".join(text.split()).replace(":", "").removeprefix("0x")
    try:
        return bytes.fromhex(bare) if bare else None
    except ValueError:
        return None


def _frames(screen: _Screen, data: bytes, name: str, options: dict[str, Any]) -> None:
    from barnabas.inspect.capture import CaptureError, captured_frames, is_capture
    from barnabas.inspect.frame_view import decode_request_frame, decode_response_frame
    from barnabas.inspect.rendering import Heading

    if is_capture(data):
        try:
            for captured in captured_frames(data, options["port"]):
                if captured.frame is not None:
                    screen.frame(captured.frame, Heading(captured.time, captured.connection))
                else:
                    _say(f"{captured.connection}: {captured.problem}")
        except CaptureError as error:
            raise CliError(f"{name}: {error}") from None
        return
    if not data:
        raise CliError(f"{name} is empty")
    answered = _answered(options["response"]) if options["response"] else None
    problems = 0
    for frame, has_length in _cut(data):
        if answered is None:
            decoded = decode_request_frame(frame, has_length=has_length)
        else:
            decoded = decode_response_frame(frame, *answered, has_length=has_length)
        screen.show(decoded, Heading())
        problems += bool(decoded.problem)
    if problems:
        raise CliError(f"{name}: {counted(problems, 'frame')} could not be decoded completely")


def _cut(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Return the frames of a file, and whether each has its length before it.

    Bytes that do not begin with the length of a frame are one frame without a length.
    """
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], signed=True)
        if not 0 < size <= len(data) - pos - 4:
            yield data[pos:], False
            return
        yield data[pos : pos + 4 + size], True
        pos += 4 + size


def _api(name: str) -> ApiKey:
    from barnabas.protocol.apis import API

    wanted = name.lower()
    for api in API.values():
        if wanted in (api.name.lower(), str(api.key)):
            return api
    raise CliError(f"Unknown API {name!r}; docs/reference/protocol.md lists all")


def _answered(text: str) -> tuple[ApiKey, int]:
    name, version = _versioned(text, "--response", "Fetch:12")
    api = _api(name)
    if not api.min_version <= version <= api.max_version:
        raise CliError(
            f"{api.name} has versions {api.min_version}-{api.max_version}, not {version}"
        )
    return api, version


def _versioned(text: str, option: str, example: str) -> tuple[str, int]:
    name, colon, version = text.rpartition(":")
    if not colon or not version.isdecimal():
        raise CliError(
            f"Invalid value {text!r} for {option}: it must be NAME:VERSION, for example {example}"
        )
    return name, int(version)


def _message(text: str) -> tuple[type[Message], int]:
    from barnabas.protocol.catalogue import messages

    name, version = _versioned(text, "--message", "TopicRecord:0")
    found = {message.__name__.lower(): message for message in messages()}
    if name.lower() not in found:
        raise CliError(f"Unknown message {name!r}; docs/reference/protocol.md lists all")
    return found[name.lower()], version


def _proxy(screen: _Screen, options: dict[str, Any]) -> None:
    import trio

    from barnabas.inspect.proxy import Proxy

    target = _address(options["to"], "--to")
    proxy = Proxy(
        _address(options["listen"], "--listen", host="127.0.0.1"),
        target,
        show=screen.frame,
        report=_say,
        rewrite=not options["no_rewrite"],
    )

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            port = await nursery.start(proxy.run)
            _say(f"connections to {proxy.listen[0]}:{port} go to {options['to']}")

    try:
        trio.run(run)
    except BaseExceptionGroup as group:
        cause = _first(group)
        if isinstance(cause, OSError) and not isinstance(cause, BrokenPipeError):
            raise CliError(f"--listen {options['listen']}: {cause.strerror or cause}") from None
        raise cause from None


def _first(error: BaseException) -> BaseException:
    """Return the first cause in a group of exceptions: Ctrl-C, a closed pipe, a refused port."""
    within: Any = getattr(error, "exceptions", None)
    return _first(within[0]) if within else error


def _address(text: str, option: str, host: str | None = None) -> Address:
    before, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or not (colon or host):
        raise CliError(f"Invalid value {text!r} for {option}: it must be HOST:PORT")
    return before.removeprefix("[").removesuffix("]") or host or "127.0.0.1", int(port)


def _say(line: str) -> None:
    """Print a line on stderr that is not about a frame."""
    click.echo(f"barnabas inspect: {line}", err=True)
