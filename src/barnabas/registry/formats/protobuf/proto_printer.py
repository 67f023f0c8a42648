"""Write Protobuf text in the form of the Java registry.

Declarations are grouped by kind, the groups of a message separated by an empty line; comments are
left out. In a block, messages come before enums.
"""

from collections.abc import Iterable

from barnabas.registry.formats.protobuf.proto_types import (
    FIELD_NUMBER_MAX,
    EnumConstant,
    EnumType,
    Extend,
    Extensions,
    Field,
    Group,
    MapType,
    Message,
    Oneof,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)


def print_proto(file: ProtoFile) -> str:
    """Return the text of a file."""
    sections: list[str] = []
    head = f'syntax = "{file.syntax}";\n' if file.syntax else ""
    head += f"package {file.package};\n" if file.package else ""
    sections.append(head)
    kinds = {"": "", "public": "public ", "weak": "weak "}
    imports = sorted(file.imports, key=lambda i: i.kind == "public")
    sections.append("".join(f"import {kinds[i.kind]}{_quoted(i.path)};\n" for i in imports))
    sections.append("".join(_statement(option) for option in file.options))
    types = [_message(message) for message in file.messages]
    sections.append("".join((*types, *map(_enum, file.enums))))
    sections.append("".join(map(_extend, file.extends)))
    sections.append("".join(map(_service, file.services)))
    return "\n".join(section for section in sections if section)


def _block(head: str, sections: Iterable[str]) -> str:
    """Return a block whose sections are separated by empty lines."""
    body = "\n".join(_indented(section) for section in sections if section)
    return f"{head} {{\n{body}}}\n" if body else f"{head} {{}}\n"


def _indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(True))


def _message(message: Message) -> str:
    types = [*map(_message, message.messages), *map(_enum, message.enums)]
    return _block(
        f"message {message.name}",
        (
            "".join(map(_reserved, message.reserved)),
            "".join(map(_statement, message.options)),
            "".join(map(_field, message.fields)),
            "\n".join(map(_oneof, message.oneofs)),
            "\n".join(map(_group, message.groups)),
            "".join(map(_extensions, message.extensions)),
            "".join(types),
            "".join(map(_extend, message.extends)),
        ),
    )


def _field(field: Field) -> str:
    field_type = field.type
    if isinstance(field_type, MapType):
        field_type = f"map<{field_type.key}, {field_type.value}>"
    label = f"{field.label} " if field.label else ""
    return f"{label}{field_type} {field.name} = {field.number}{_options(field.options)};\n"


def _options(options: tuple[Option, ...]) -> str:
    if not options:
        return ""
    first = [o for o in options if o.name not in ("default", "json_name")]
    last = sorted((o for o in options if o not in first), key=lambda o: o.name)
    printed = [_option(option) for option in (*first, *last)]
    if len(printed) == 1:
        return f" [{printed[0]}]"
    lines = ",\n".join(_indented(line) for line in printed)
    return f" [\n{lines}\n]"


def _option(option: Option) -> str:
    return f"{option.name} = {_value(option.value)}"


def _statement(option: Option) -> str:
    return f"option {_option(option)};\n"


def _value(value: OptionValue) -> str:
    if value.kind == "string":
        return _quoted(value.text)
    if value.kind == "list":
        items = ",\n".join(_indented(_value(item)) for item in value.items)
        return f"[\n{items}\n]" if items else "[]"
    if value.kind == "map":
        entries = (_indented(f"{key}: {_value(item)}") for key, item in value.entries)
        body = ",\n".join(entries)
        return f"{{\n{body}\n}}" if body else "{}"
    return value.text


def _oneof(oneof: Oneof) -> str:
    return _block(
        f"oneof {oneof.name}",
        (
            "".join(map(_statement, oneof.options)),
            "".join(map(_field, oneof.fields)),
            "".join(map(_group, oneof.groups)),
        ),
    )


def _group(group: Group) -> str:
    label = f"{group.label} " if group.label else ""
    fields = "".join(map(_field, group.fields))
    return _block(f"{label}group {group.name} = {group.number}", (fields,))


def _range(numbers: Range) -> str:
    if numbers.first == numbers.last:
        return str(numbers.first)
    last = "max" if numbers.last == FIELD_NUMBER_MAX else numbers.last
    return f"{numbers.first} to {last}"


def _reserved(reserved: Reserved) -> str:
    items = (_quoted(i) if isinstance(i, str) else _range(i) for i in reserved.items)
    return f"reserved {', '.join(items)};\n"


def _extensions(extensions: Extensions) -> str:
    return f"extensions {', '.join(map(_range, extensions.ranges))};\n"


def _extend(extend: Extend) -> str:
    return _block(f"extend {extend.name}", ("".join(map(_field, extend.fields)),))


def _enum(enum: EnumType) -> str:
    body = "".join((*map(_statement, enum.options), *map(_constant, enum.constants)))
    return _block(f"enum {enum.name}", ("".join(map(_reserved, enum.reserved)), body))


def _constant(constant: EnumConstant) -> str:
    return f"{constant.name} = {constant.number}{_options(constant.options)};\n"


def _service(service: Service) -> str:
    options = "".join(map(_statement, service.options))
    return _block(f"service {service.name}", (options, "".join(map(_rpc, service.rpcs))))


def _rpc(rpc: Rpc) -> str:
    request = f"stream {rpc.request}" if rpc.request_stream else rpc.request
    response = f"stream {rpc.response}" if rpc.response_stream else rpc.response
    head = f"rpc {rpc.name} ({request}) returns ({response})"
    if not rpc.options:
        return f"{head};\n"
    return _block(head, ("".join(map(_statement, rpc.options)),)).rstrip("\n") + ";\n"


_QUOTES = str.maketrans(
    {
        "\\": "\\\\",
        '"': '\\"',
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\v": "\\v",
    }
)


def _quoted(text: str) -> str:
    escaped = text.translate(_QUOTES)
    return '"' + "".join(c if c >= " " else f"\\{ord(c):03o}" for c in escaped) + '"'
