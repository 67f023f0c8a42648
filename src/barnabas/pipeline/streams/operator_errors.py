"""Operators that cannot be applied where they are."""


class OperatorError(Exception):
    """An operator or its expression does not fit here; the message says why, or what to do."""


def check_first(operator: str, *output_modes: str | None) -> None:
    """Raise OperatorError for an operator with state after another one, which has a mode."""
    if any(mode is not None for mode in output_modes):
        raise OperatorError(
            f"{operator} follows another operator with state: write its result to a topic, "
            "and read that with App.topic or App.table"
        )
