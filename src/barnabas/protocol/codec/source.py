"""Builds Python source line by line, and compiles it."""

from itertools import count
from struct import Struct
from typing import Any, Final

from barnabas.protocol.codec.layout import Layout, repeated


class Source:
    """The source of a generated function in progress, and the names that it uses."""

    def __init__(self, names: dict[str, Any], layout: Layout) -> None:
        self.names = names
        self.repeated = repeated(layout)
        self.lines: list[str] = []
        self.indent = 0
        self.requested: dict[str, Layout] = {}
        """Functions of structs that `shared` has named and that are still to be written."""
        self._numbers = count(1)

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    def variable(self, stem: str) -> str:
        """Return a new variable name."""
        return f"{stem}{next(self._numbers)}"

    def bind(self, stem: str, value: object) -> str:
        """Bind a constant of the function; return its name."""
        name = self.variable(stem)
        self.names[name] = value
        return name

    def unpacker(self, codes: str) -> str:
        """Return the name of `unpack_from` of a big-endian format."""
        name = f"unpack_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = struct_of(codes).unpack_from
        return name

    def packer(self, codes: str) -> str:
        """Return the name of `pack` of a big-endian format."""
        name = f"pack_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = struct_of(codes).pack
        return name

    def short_unpackers(self, code: str) -> str:
        """Return the name of a list of `unpack_from` functions, indexed by the count of numbers."""
        name = f"unpack_each_{code.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = [struct_of(code * n).unpack_from for n in range(SHORT_ARRAY)]
        return name

    def short_packers(self, length: str, code: str) -> str:
        """Return the name of a list of `pack` functions; each first packs a length of format
        `length`.
        """
        name = f"pack_each_{length}_{code.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = [struct_of(length + code * n).pack for n in range(SHORT_ARRAY)]
        return name

    def shared(self, verb: str, layout: Layout) -> str | None:
        """Return the name of the function for a struct that occurs at several places, else None.

        It is written once instead of at each place, since compile time is the cost of an api's
        first use.
        """
        if layout.type not in self.repeated:
            return None
        name = f"{verb}_{layout.type.__name__}"
        if name not in self.requested:
            self.requested[name] = layout
        return name

    def compile(self, function: str, what: str) -> Any:
        """Compile all lines; return one of their functions."""
        code = compile("\n".join(self.lines), f"<codec of {what}>", "exec")
        exec(code, self.names)
        return self.names[function]


_FORMATS: dict[str, Struct] = {}

SHORT_ARRAY: Final = 9
"""Arrays with fewer numbers use a prepared `Struct`; longer ones build one for their length."""


def struct_of(codes: str) -> Struct:
    """Return the big-endian `Struct` of some codes; it is built once."""
    made = _FORMATS.get(codes)
    if made is None:
        made = _FORMATS[codes] = Struct(">" + codes)
    return made
