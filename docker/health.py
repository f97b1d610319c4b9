"""The health check of the container: ends with 0 if the service answers that it is alive.

It starts often, so it reads no settings. With TLS, TIDYBERG_SERVER__PROBE_PORT gives probes a port without it.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException

PORT = os.environ.get("TIDYBERG_SERVER__PROBE_PORT") or os.environ.get("TIDYBERG_SERVER__PORT") or "8080"


def main() -> int:
    connection = HTTPConnection("127.0.0.1", int(PORT), timeout=4)
    try:
        connection.request("GET", "/health/live")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, HTTPException) as error:
        sys.stderr.write(f"{error}\n")
        return 1


sys.exit(main())
