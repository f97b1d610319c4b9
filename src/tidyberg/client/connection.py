"""Connection settings of both clients."""

from typing import Any

import httpx

from tidyberg._version import __version__
from tidyberg.errors import BadInput

TIMEOUT_SECONDS = 60.0  # planning a large table takes a while
RETRIES = 3


def httpx_arguments(url: str, token: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Returns the arguments of the httpx client. Only one header contains the token [I12]."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host:
        raise BadInput(
            f"{address.host or url[:100]!r} is not the address of a service.",
            hint="Write http://host:8080 or https://…",
        )
    if address.userinfo:
        raise BadInput("The address of a service must not contain a password.", hint="Use a token instead.")
    headers = {"User-Agent": f"tidyberg/{__version__}", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return {"base_url": address, "headers": headers, "timeout": timeout_seconds, "trust_env": True}
