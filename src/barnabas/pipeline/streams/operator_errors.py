"""Operators that cannot be applied where they are."""


class OperatorError(Exception):
    """An operator cannot be applied here; the message says what to do instead."""


def check_first(operator: str, *output_modes: str | None) -> None:
    """Raise OperatorError for an operator with state after another one, which has a mode."""
    if any(mode is not None for mode in output_modes):
        raise OperatorError(
            f"{operator} follows another operator with state: write its result to a topic, "
            "and read that with App.topic or App.table"
        )
