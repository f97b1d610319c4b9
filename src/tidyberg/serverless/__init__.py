"""tidyberg as an AWS Lambda function. The name of its handler is `tidyberg.serverless.handler`."""

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidyberg.serverless.function import Function

_lock = threading.Lock()
_function: "Function | None" = None


def handler(event: Any, context: Any) -> Any:
    """Handle one event. A warm sandbox keeps its settings, catalogs and job store for the next one."""
    return _get_function()(event, context)


def _get_function() -> "Function":
    global _function
    with _lock:
        if _function is None:
            from tidyberg.serverless.function import Function

            _function = Function.of_environment(os.environ)
        return _function


if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    # Lambda gives the start of a sandbox more CPU than small functions have later, so the imports happen now.
    from tidyberg.serverless import preload as preload
