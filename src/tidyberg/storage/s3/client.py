"""Sends signed requests to an S3 store over persistent connections, and retries transient failures."""

import hashlib
import http.client
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidyberg.storage.s3.responses import S3Error, S3Response, is_transient
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.signing import EMPTY_PAYLOAD, Query, encode_path, encode_query, sign

Bytes = bytes | bytearray | memoryview

_IDLE_SECONDS = 15.0  # stores close connections that are idle for longer
_SENT_AT_ONCE = 1024 * 1024  # bytes of a body; the request timeout applies to each such block, so slow links work
_RETRIES_UNREACHABLE = 3  # a wrong address should fail within seconds
_WRONG_REGION = (
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "TemporaryRedirect",
    "IllegalLocationConstraintException",
)


class RequestCounter:
    """Counts requests by kind. Retries count too, because the store charges for them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, kind: str, number: int = 1) -> None:
        with self._lock:
            self._counts[kind] += number

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {kind: number for kind, number in sorted(self._counts.items()) if number}


@dataclass(frozen=True)
class S3Request:
    kind: str  # the name under which it is counted
    method: str
    bucket: str
    key: str = ""
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Bytes = b""

    def __str__(self) -> str:
        return f"{self.kind} of s3://{self.bucket}/{self.key}"


class RetryBudget:
    """Decides how often and how long one request is retried."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._failures = 0
        self._deadline: float | None = None

    def wait_after(self, error: Exception) -> None:
        """Sleeps until the next attempt. Raises the error if the budget allows no further attempt."""
        if not is_transient(error):
            raise error
        settings = self._settings
        self._failures += 1
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + settings.retry_seconds
        wait = min(settings.longest_wait_seconds, settings.first_wait_seconds * 2 ** (self._failures - 1))
        wait *= random.uniform(0.5, 1.0)  # noqa: S311  # jitter: workers do not retry all at once
        wait = max(wait, error.wait_seconds) if isinstance(error, S3Error) else wait
        most = min(settings.retries, _RETRIES_UNREACHABLE) if _is_unreachable(error) else settings.retries
        if self._failures > most or now + wait > self._deadline:
            raise error
        time.sleep(wait)


class S3Client:
    """A client for one store. There is one per process and set of settings, and threads share it."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.copies_parts = True  # until the store refuses to
        self._is_closed = False
        self._regions: dict[str, str] = {}
        self._idle: defaultdict[tuple[bool, str], list[tuple[float, http.client.HTTPConnection]]] = defaultdict(list)
        self._lock = threading.Lock()

    def call(self, request: S3Request, requests: RequestCounter, budget: RetryBudget | None = None) -> S3Response:
        """Returns the response. Raises S3Error if the store reports an error."""
        budget = budget or RetryBudget(self.settings)
        while True:
            try:
                opened = self._send(request, requests)
                response = S3Response(opened.status, opened.headers, opened.read_all())
                if response.is_error:
                    raise S3Error(response, str(request))
            except (OSError, http.client.HTTPException) as error:
                if not self._moved(error, request.bucket):
                    budget.wait_after(error)
            else:
                return response

    def open(self, request: S3Request, requests: RequestCounter, budget: RetryBudget) -> "StreamedResponse":
        """Returns a response whose body has not been read. The caller reads it."""
        while True:
            try:
                opened = self._send(request, requests)
                if opened.status >= 300:
                    raise S3Error(S3Response(opened.status, opened.headers, opened.read_all()), str(request))
            except (OSError, http.client.HTTPException) as error:
                if not self._moved(error, request.bucket):
                    budget.wait_after(error)
            else:
                return opened

    def _moved(self, error: Exception, bucket: str) -> bool:
        """Amazon's error names the region of the bucket. Later requests for this bucket go to that region."""
        if not isinstance(error, S3Error) or not error.region or self.settings.endpoint is not None:
            return False
        if error.code not in _WRONG_REGION and error.status not in (301, 307, 400):
            return False
        if error.region == self._region(bucket):
            return False
        self._regions[bucket] = error.region
        return True

    def _region(self, bucket: str) -> str:
        return self._regions.get(bucket, self.settings.region)

    def _send(self, request: S3Request, requests: RequestCounter) -> "StreamedResponse":
        region = self._region(request.bucket)
        secure, host, base = self.settings.address(request.bucket, region)
        path = encode_path(f"{base}/{request.key}" if request.key else base or "/")
        payload = hashlib.sha256(request.body).hexdigest() if request.body else EMPTY_PAYLOAD
        while True:
            headers = sign(
                request.method,
                host,
                path,
                request.query,
                request.headers,
                payload,
                credentials=self.settings.credentials,
                region=region,
                now=datetime.now(UTC),
            )
            if request.body or request.method in ("PUT", "POST"):
                headers["content-length"] = str(len(request.body))
            target = f"{path}?{encode_query(request.query)}" if request.query else path
            connection, is_fresh = self._connection(secure, host)
            try:
                response = _exchange(connection, request, target, headers)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not is_fresh and not isinstance(error, TimeoutError):
                    continue  # the store had closed the idle connection, which is not a failure
                requests.add(request.kind)
                raise
            requests.add(request.kind)
            return StreamedResponse(self, (secure, host), connection, response)

    def _connection(self, secure: bool, host: str) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            idle = self._idle[secure, host]
            while idle:
                since, kept = idle.pop()
                if time.monotonic() - since < _IDLE_SECONDS:
                    return kept, False
                kept.close()
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(host, timeout=self.settings.connect_seconds)
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(f"{host} cannot be reached: {error}") from error
        connection.sock.settimeout(self.settings.request_seconds)
        return connection, True

    def keep(self, where: tuple[bool, str], connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle[where].append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        """Closes idle connections. Requests in flight finish, and their connections are closed afterwards."""
        with self._lock:
            self._is_closed = True
            idle = [connection for kept in self._idle.values() for _, connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()


class Unreachable(ConnectionError):  # noqa: N818 - a fact about a host
    """The client could not connect to the host."""


def _is_unreachable(error: Exception) -> bool:
    return isinstance(error, Unreachable)


class StreamedResponse:
    """A response whose body is still on the wire. Its connection is reused after the whole body was read."""

    def __init__(
        self,
        client: S3Client,
        where: tuple[bool, str],
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
    ) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self._client = client
        self._where = where
        self._connection = connection
        self._response = response

    def read_into(self, view: memoryview) -> int:
        """Returns the number of bytes read, 0 at the end."""
        return self._response.readinto(view)

    def read_all(self) -> bytes:
        try:
            return self._response.read()
        finally:
            self.close()

    def close(self) -> None:
        if self._response.isclosed() and not self._response.will_close:
            self._client.keep(self._where, self._connection)
        else:
            self._response.close()
            self._connection.close()


def _exchange(
    connection: http.client.HTTPConnection, request: S3Request, target: str, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    try:
        connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        body = memoryview(request.body).cast("B")
        connection.endheaders(body[:_SENT_AT_ONCE] if body else None)
        for start in range(_SENT_AT_ONCE, len(body), _SENT_AT_ONCE):
            connection.send(body[start : start + _SENT_AT_ONCE])
    except (BrokenPipeError, ConnectionResetError):
        # A store that rejects a body responds without reading it. Its response says more than "broken pipe".
        return connection.getresponse()
    return connection.getresponse()
