"""The health check of the container: ends with 0 if the service answers that it is alive."""

import os
import ssl
import sys
import urllib.request

PORT = os.environ.get("TIDYBERG_SERVER__PROBE_PORT") or os.environ.get("TIDYBERG_SERVER__PORT") or "8080"
WITH_TLS = "TIDYBERG_SERVER__TLS_CERT" in os.environ and "TIDYBERG_SERVER__PROBE_PORT" not in os.environ


def main() -> int:
    # The certificate is for the name of the service, not for this address, and the probe sends nothing secret.
    context = ssl._create_unverified_context() if WITH_TLS else None
    scheme = "https" if WITH_TLS else "http"
    try:
        with urllib.request.urlopen(f"{scheme}://127.0.0.1:{PORT}/health/live", timeout=4, context=context) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1


sys.exit(main())
