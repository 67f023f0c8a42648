"""Writes Python source line by line, and compiles it."""

from itertools import count
from struct import Struct
from typing import Any, Final

from barnabas.protocol.codec.layout import Layout, repeated


class Source:
    """The source of one generated function under way, and the names that it may use."""

    def __init__(self, names: dict[str, Any], layout: Layout) -> None:
        self.names = names
        self.repeated = repeated(layout)
        self.lines: list[str] = []
        self.indent = 0
        self.requested: dict[str, Layout] = {}
        """Functions of structs that `shared` has named, to be written."""
        self._numbers = count(1)

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    def variable(self, stem: str) -> str:
        """A name not used before."""
        return f"{stem}{next(self._numbers)}"

    def bind(self, stem: str, value: object) -> str:
        """A name for a constant of the function."""
        name = self.variable(stem)
        self.names[name] = value
        return name

    def unpacker(self, codes: str) -> str:
        """The name of `unpack_from` of a big-endian format."""
        name = f"unpack_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = struct_of(codes).unpack_from
        return name

    def packer(self, codes: str) -> str:
        """The name of `pack` of a big-endian format."""
        name = f"pack_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = struct_of(codes).pack
        return name

    def short_unpackers(self, code: str) -> str:
        """The name of a list of `unpack_from`, by how many numbers of one format they read."""
        name = f"unpack_each_{code.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = [struct_of(code * n).unpack_from for n in range(SHORT_ARRAY)]
        return name

    def short_packers(self, length: str, code: str) -> str:
        """As `short_unpackers`, of `pack`; a length of the format `length` comes first."""
        name = f"pack_each_{length}_{code.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = [struct_of(length + code * n).pack for n in range(SHORT_ARRAY)]
        return name

    def shared(self, verb: str, layout: Layout) -> str | None:
        """The name of the function for a struct that stands in several places, else None.

        Written once instead of at each place: compiling is what the first use of an api costs.
        """
        if layout.type not in self.repeated:
            return None
        name = f"{verb}_{layout.type.__name__}"
        if name not in self.requested:
            self.requested[name] = layout
        return name

    def compile(self, function: str, what: str) -> Any:
        """Compile all lines and return one of the functions in them."""
        code = compile("\n".join(self.lines), f"<codec of {what}>", "exec")
        exec(code, self.names)
        return self.names[function]


_FORMATS: dict[str, Struct] = {}

SHORT_ARRAY: Final = 9
"""Arrays of fewer numbers have a `Struct` each; longer ones need one made for their length."""


def struct_of(codes: str) -> Struct:
    """The big-endian `Struct` of some codes, made once."""
    made = _FORMATS.get(codes)
    if made is None:
        made = _FORMATS[codes] = Struct(">" + codes)
    return made
