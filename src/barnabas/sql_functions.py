"""Functions of SQL in Python.

    from barnabas.sql_functions import scalar

    @scalar("STRING", returns="STRING")
    def initials(name: str | None) -> str | None:
        "The first letters of the words."
        return None if name is None else "".join(word[0] for word in name.split())

A package declares the function as an entry point of the group `barnabas.sql_functions`, and is
installed beside barnabas. docs/sql.md is the guide.
"""

from barnabas.pipeline.sql.functions.python_functions import PythonFunction, scalar

__all__ = ["PythonFunction", "scalar"]
