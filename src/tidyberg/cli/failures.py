"""Prints errors, and converts unexpected exceptions to errors."""

from tidyberg.cli.session import standard_error
from tidyberg.errors import InternalError, TidybergError
from tidyberg.redact import redact_text


def unexpected_error(error: Exception) -> TidybergError:
    """Wraps an unexpected exception, without secrets [I12]."""
    words = redact_text(f"{type(error).__name__}: {error}")
    return InternalError(
        f"Unexpected failure: {words}", hint="This is a bug in tidyberg. TIDYBERG_DEBUG=1 prints the traceback."
    )


def print_error(error: TidybergError, about: str = "") -> None:
    """Prints on standard error what happened and what to do next."""
    console = standard_error()
    console.print(f"error: {about}{error.message}", style="bold red", markup=False, soft_wrap=True)
    if error.hint:
        console.print(error.hint, markup=False, soft_wrap=True)
