"""Failures that nobody foresaw, as errors that can be told; and how an error is told."""

from tidyberg.cli.session import standard_error
from tidyberg.errors import TidybergError
from tidyberg.redact import redact_text


def unexpected_error(error: Exception) -> TidybergError:
    """A defect, told without secrets [I12]."""
    words = redact_text(f"{type(error).__name__}: {error}")
    return TidybergError(
        f"Unexpected failure: {words}", hint="This is a defect of tidyberg. TIDYBERG_DEBUG=1 shows where."
    )


def print_error(error: TidybergError, about: str = "") -> None:
    """On standard error: what happened, and what to do next."""
    console = standard_error()
    console.print(f"error: {about}{error.message}", style="bold red", markup=False, soft_wrap=True)
    if error.hint:
        console.print(error.hint, markup=False, soft_wrap=True)
