"""The normal form of a Protobuf file, and the form without custom options.

In the normal form type names are full, and declarations whose order has no meaning are sorted:
imports, options, fields, oneofs and reserved ranges by number or name. Messages stay in place, as
their position in the file identifies them in serialized records.
"""

import attrs

from barnabas.registry.formats.protobuf.proto_names import Names
from barnabas.registry.formats.protobuf.proto_types import (
    SCALARS,
    EnumType,
    Extend,
    Field,
    Group,
    MapType,
    Message,
    Oneof,
    Option,
    ProtoFile,
    Reserved,
    Rpc,
    Service,
)


def normal_file(file: ProtoFile, names: Names) -> ProtoFile:
    """Return the normal form of a file."""
    return _Normal(names).file(file)


class _Normal:
    def __init__(self, names: Names) -> None:
        self._names = names

    def file(self, file: ProtoFile) -> ProtoFile:
        scope = file.package
        return attrs.evolve(
            file,
            imports=tuple(sorted(file.imports, key=lambda i: i.path)),
            options=_sorted(file.options),
            messages=tuple(self._message(m, scope) for m in file.messages),
            enums=tuple(map(_enum, file.enums)),
            extends=tuple(self._extend(e, scope) for e in file.extends),
            services=tuple(self._service(s, scope) for s in file.services),
        )

    def _type(self, written: str, scope: str) -> str:
        return written if written in SCALARS else f".{self._names.resolve(written, scope).full}"

    def _message(self, message: Message, scope: str) -> Message:
        scope = f"{scope}.{message.name}" if scope else message.name
        oneofs = sorted(message.oneofs, key=lambda o: o.name)
        return attrs.evolve(
            message,
            fields=self._fields(message.fields, scope),
            oneofs=tuple(self._oneof(o, scope) for o in oneofs),
            groups=tuple(self._group(g, scope) for g in message.groups),
            messages=tuple(self._message(m, scope) for m in message.messages),
            enums=tuple(map(_enum, message.enums)),
            extends=tuple(self._extend(e, scope) for e in message.extends),
            reserved=_reserved(message.reserved),
            options=_sorted(message.options),
        )

    def _fields(self, fields: tuple[Field, ...], scope: str) -> tuple[Field, ...]:
        return tuple(self._field(f, scope) for f in sorted(fields, key=lambda f: f.number))

    def _field(self, field: Field, scope: str) -> Field:
        if isinstance(field.type, MapType):
            value = self._type(field.type.value, scope)
            return attrs.evolve(
                field, type=MapType(field.type.key, value), options=_sorted(field.options)
            )
        return attrs.evolve(
            field, type=self._type(field.type, scope), options=_sorted(field.options)
        )

    def _oneof(self, oneof: Oneof, scope: str) -> Oneof:
        return attrs.evolve(
            oneof, fields=self._fields(oneof.fields, scope), options=_sorted(oneof.options)
        )

    def _group(self, group: Group, scope: str) -> Group:
        return attrs.evolve(group, fields=self._fields(group.fields, scope))

    def _extend(self, extend: Extend, scope: str) -> Extend:
        name = f".{self._names.resolve(extend.name, scope).full}"
        return Extend(name, self._fields(extend.fields, scope))

    def _service(self, service: Service, scope: str) -> Service:
        rpcs = tuple(self._rpc(rpc, scope) for rpc in service.rpcs)
        return attrs.evolve(service, rpcs=rpcs, options=_sorted(service.options))

    def _rpc(self, rpc: Rpc, scope: str) -> Rpc:
        return attrs.evolve(
            rpc,
            request=self._type(rpc.request, scope),
            response=self._type(rpc.response, scope),
            options=_sorted(rpc.options),
        )


def _sorted(options: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(sorted(options, key=lambda option: option.name))


def _enum(enum: EnumType) -> EnumType:
    constants = sorted(enum.constants, key=lambda c: (c.number, c.name))
    return attrs.evolve(
        enum,
        constants=tuple(attrs.evolve(c, options=_sorted(c.options)) for c in constants),
        options=_sorted(enum.options),
        reserved=_reserved(enum.reserved),
    )


def _reserved(statements: tuple[Reserved, ...]) -> tuple[Reserved, ...]:
    """Return one statement for each range and name, ranges first."""
    items = [item for statement in statements for item in statement.items]
    names = sorted(item for item in items if isinstance(item, str))
    ranges = sorted(
        (item for item in items if not isinstance(item, str)), key=lambda r: (r.first, r.last)
    )
    return tuple(Reserved((item,)) for item in (*ranges, *names))


def without_extensions(file: ProtoFile) -> ProtoFile:
    """Return a file without the options that are extensions, written in parentheses."""
    return attrs.evolve(
        file,
        options=_plain(file.options),
        messages=tuple(map(_plain_message, file.messages)),
        enums=tuple(map(_plain_enum, file.enums)),
        extends=tuple(attrs.evolve(e, fields=_plain_fields(e.fields)) for e in file.extends),
        services=tuple(
            attrs.evolve(
                service,
                options=_plain(service.options),
                rpcs=tuple(attrs.evolve(r, options=_plain(r.options)) for r in service.rpcs),
            )
            for service in file.services
        ),
    )


def _plain(options: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(option for option in options if not option.name.startswith("("))


def _plain_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(attrs.evolve(field, options=_plain(field.options)) for field in fields)


def _plain_enum(enum: EnumType) -> EnumType:
    constants = tuple(attrs.evolve(c, options=_plain(c.options)) for c in enum.constants)
    return attrs.evolve(enum, constants=constants, options=_plain(enum.options))


def _plain_message(message: Message) -> Message:
    return attrs.evolve(
        message,
        fields=_plain_fields(message.fields),
        oneofs=tuple(
            attrs.evolve(o, fields=_plain_fields(o.fields), options=_plain(o.options))
            for o in message.oneofs
        ),
        groups=tuple(attrs.evolve(g, fields=_plain_fields(g.fields)) for g in message.groups),
        messages=tuple(map(_plain_message, message.messages)),
        enums=tuple(map(_plain_enum, message.enums)),
        options=_plain(message.options),
    )
