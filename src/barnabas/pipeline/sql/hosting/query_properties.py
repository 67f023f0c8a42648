"""The names of the properties of a query's job."""

from typing import Final

STATEMENT: Final = "sql.statement"
DEFINITIONS: Final = "sql.definitions"
START: Final = "sql.start"
FIRST_OFFSETS: Final = "sql.first.offsets"
"""The ends of the topics when the statement of a query ran that starts there."""
REGISTRY: Final = "sql.registry"
PHASE: Final = "sql.phase"
"""`building` for a query that rebuilds a table, beside the one that has it."""
TOPICS: Final = "topics"
