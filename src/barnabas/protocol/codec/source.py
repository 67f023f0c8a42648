"""Writes Python source line by line, and compiles it."""

from itertools import count
from struct import Struct
from typing import Any


class Source:
    """The source of one generated function under way, and the names that it may use."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.indent = 0
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
            self.names[name] = _format(codes).unpack_from
        return name

    def packer(self, codes: str) -> str:
        """The name of `pack` of a big-endian format."""
        name = f"pack_{codes.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = _format(codes).pack
        return name

    def compile(self, function: str, what: str) -> Any:
        """Compile all lines and return one of the functions in them."""
        code = compile("\n".join(self.lines), f"<codec of {what}>", "exec")
        exec(code, self.names)
        return self.names[function]


_FORMATS: dict[str, Struct] = {}


def _format(codes: str) -> Struct:
    made = _FORMATS.get(codes)
    if made is None:
        made = _FORMATS[codes] = Struct(">" + codes)
    return made
