"""The names of the properties of a query's job."""

from typing import Final

STATEMENT: Final = "sql.statement"
DEFINITIONS: Final = "sql.definitions"
START: Final = "sql.start"
REGISTRY: Final = "sql.registry"
PHASE: Final = "sql.phase"
"""`building` for a query that rebuilds a table, beside the one that has it."""
TOPICS: Final = "topics"
