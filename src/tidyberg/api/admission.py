"""Admission control: refuses a submission that would wait too long, before it reads any of it.

The expected wait is the number of submissions under way times the seconds that recent ones took per place in the
queue. The limit follows the speed of the machine, so it needs no configuration.
"""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidyberg.api.connections import Shed
from tidyberg.api.problems import PreparedProblem
from tidyberg.api.refusals import Overloaded

SUBMIT_PATHS = ("/api/v1/compact", "/compact")
UNKNOWN = ""  # the tenant of credentials that were not checked yet
_CREDENTIALS = (b"authorization", b"x-api-key")
_MOST_CREDENTIALS = 10_000
_FIRST_GUESS_SECONDS = 0.005  # the estimate until a submission was measured
_WEIGHT = 0.1  # of the newest submission in the moving average
_LONGEST_RETRY_SECONDS = 60


class Admission:
    """Tenants take turns: the one with the most submissions under way is refused first. For the event loop only."""

    def __init__(self, wait_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._seconds_each = _FIRST_GUESS_SECONDS
        self._under_way: Counter[str] = Counter()
        self._tenants: OrderedDict[int, str] = OrderedDict()  # by a hash of the credential
        self.lag: Callable[[], float] = lambda: 0.0  # how long a request waits in the socket

    def now(self) -> float:
        return self._clock()

    def expected_wait(self, tenant: str) -> float:
        """Returns the seconds until a submission that arrives now would be answered."""
        return self.lag() + self._places(tenant) * self._seconds_each

    def is_too_late(self, tenant: str, arrived: float) -> bool:
        """An idle service accepts every submission. Otherwise it would never measure that it is fast again."""
        waited = self._clock() - arrived
        return bool(self._under_way) and waited + self.expected_wait(tenant) > self._wait_seconds

    def enter(self, tenant: str) -> int:
        """Returns the place of the submission in the queue. Call `leave` afterwards."""
        self._under_way[tenant] += 1
        return self._places(tenant, newcomers=0)

    def leave(self, tenant: str) -> None:
        self._under_way[tenant] -= 1
        if self._under_way[tenant] <= 0:
            del self._under_way[tenant]

    def learn_seconds(self, place: int, seconds: float) -> None:
        """Updates the average with a submission that was answered from that place in the queue."""
        # A submission that hung says little about the next ones, so its time is capped.
        self._seconds_each += _WEIGHT * (min(seconds / place, self._wait_seconds) - self._seconds_each)

    def tenant_of(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Returns the tenant for taking turns. This is no authentication: the route checks the credential later."""
        return self._tenants.get(_fingerprint(headers), UNKNOWN)

    def learn_tenant(self, headers: Iterable[tuple[bytes, bytes]], tenant: str) -> None:
        """Remembers that the credential in these headers belongs to the tenant."""
        key = _fingerprint(headers)
        self._tenants[key] = tenant
        self._tenants.move_to_end(key)
        if len(self._tenants) > _MOST_CREDENTIALS:
            self._tenants.popitem(last=False)

    def _places(self, tenant: str, newcomers: int = 1) -> int:
        """Returns the place in a round-robin queue: another tenant counts at most as often as this one."""
        own = self._under_way[tenant] + newcomers
        return own + sum(min(number, own) for other, number in self._under_way.items() if other != tenant)


def _fingerprint(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return hash(tuple((name, value) for name, value in headers if name in _CREDENTIALS))


class AdmissionMiddleware:
    """The outermost middleware, so that a refusal is cheap."""

    def __init__(self, app: ASGIApp, admission: Admission, on_shed: Callable[[Shed], None]) -> None:
        self._app = app
        self._admission = admission
        self._on_shed = on_shed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in SUBMIT_PATHS:
            await self._app(scope, receive, send)
            return
        admission = self._admission
        tenant = admission.tenant_of(scope["headers"])
        arrived = scope.get("state", {}).get("arrived", admission.now())
        if admission.is_too_late(tenant, arrived):
            self._on_shed(Shed.WAIT)
            await overloaded(retry_after(admission.expected_wait(tenant)))(scope, receive, send)
            return
        submission = _Submission(admission, tenant, arrived, receive, send)
        try:
            await self._app(scope, submission.receive, submission.send)
        finally:
            submission.end()


class _Submission:
    """A submission under way. It does not count while its client still sends the body."""

    def __init__(self, admission: Admission, tenant: str, arrived: float, receive: Receive, send: Send) -> None:
        self._admission = admission
        self._tenant = tenant
        self._arrived = arrived
        self._receive, self._send = receive, send
        self._has_body = False
        self._client_seconds = 0.0
        self._status = 0
        self._place = admission.enter(tenant)

    async def receive(self) -> Message:
        if self._has_body:
            return await self._receive()
        began = self._admission.now()
        self._admission.leave(self._tenant)
        try:
            message = await self._receive()
        finally:
            self._place = self._admission.enter(self._tenant)
            self._client_seconds += self._admission.now() - began
        self._has_body = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def end(self) -> None:
        self._admission.leave(self._tenant)
        if 200 <= self._status < 300:  # refusals are fast and would distort the average
            seconds = self._admission.now() - self._arrived - self._client_seconds
            self._admission.learn_seconds(self._place, seconds)


def retry_after(expected_seconds: float) -> int:
    return min(_LONGEST_RETRY_SECONDS, max(1, math.ceil(2 * expected_seconds)))


@lru_cache(maxsize=_LONGEST_RETRY_SECONDS)
def overloaded(retry_after_seconds: int) -> PreparedProblem:
    return PreparedProblem(
        Overloaded(
            "The service is overloaded.",
            hint="Try again in a moment.",
            retry_after_seconds=retry_after_seconds,
        )
    )
