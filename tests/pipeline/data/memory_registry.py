"""A schema registry in memory, for tests of converters."""

from typing import Any, TypeVar

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.registered_schemas import RegisteredSchema

C = TypeVar("C")


class Registry:
    """Keeps schemas in memory; ids begin with 1."""

    def __init__(self) -> None:
        self.schemas: list[tuple[str, RegisteredSchema]] = []

    def schema_of(self, schema_id: int) -> RegisteredSchema:
        if not 0 < schema_id <= len(self.schemas):
            raise DataError(f"Schema {schema_id} not found; error code: 40403")
        return self.schemas[schema_id - 1][1]

    def id_of(self, subject: str, schema: RegisteredSchema, *, registers: bool) -> int:
        if (subject, schema) not in self.schemas:
            if not registers:
                raise DataError("Schema not found; error code: 40403")
            self.schemas.append((subject, schema))
        return self.schemas.index((subject, schema)) + 1


def configured(made: C, registry: Registry, **props: str) -> C:
    """Return a converter of values with this registry; `__` in a name stands for a dot."""
    converter: Any = made
    converter.open_lookup = lambda props: registry
    own = {name.replace("__", "."): value for name, value in props.items()}
    converter.configure({"schema.registry.url": "http://127.0.0.1:1", **own}, is_key=False)
    return made
