"""Access control: host, origin, token and rate limits around every request.

    Host      must be ours, so that no web site can point its own name at this machine (DNS
              rebinding) and have a browser talk to it
    Origin    must be the page's own, so that no other site, nor another port of this machine,
              can send requests through a browser
    token     as ``Authorization: Bearer``, or as the cookie that the page received in exchange
              for it; for all but ``/healthz`` and ``/readyz``
    rate      of requests, and more narrowly of wrong tokens, for each address

Requests that Home Assistant's supervisor forwards (``Settings.ingress``) come from users that it
has authenticated: they need no token, may use any host name, and may show the page in a frame of
the same site. They are recognised by their sender's address and a header together; the header alone
could be sent by anybody.

The cookie is derived from the token and is not the token: browsers send cookies to every port of a
host. It is ``HttpOnly`` and ``SameSite=Strict``. By itself it only gives access to the page's own
files. For everything else the page adds a second secret to the address, ``page=…``. It received it
behind the ``#`` of its own address, and keeps it in the browser's storage, which is separate for
each port. A server at another port of the host can learn the cookie, but cannot use it.
"""

import asyncio
import hmac
import ipaddress
import logging
import re
import time
from collections import OrderedDict
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.service.api.failures import Refused, body_of, headers_of
from everlearn.service.metrics import Metrics
from everlearn.service.settings import Settings

LOG = logging.getLogger("everlearn.service")

HEALTH = "/healthz"
READY = "/readyz"
COOKIE_DAYS = 30
# What the cookie alone gives access to, and the second secret for everything else.
COOKIE_PATHS = ("/", "/api")
PAGE_KEY = b"page="
# Header of a request forwarded by Home Assistant: the path of the page below its own address.
INGRESS_HEADER = "x-ingress-path"
INGRESS_PATH = re.compile(r"/api/hassio_ingress/[\w-]+")
# Maximum number of client addresses tracked; the least recently seen is dropped first.
MOST_ADDRESSES = 4096

POLICY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# Home Assistant shows the page in a frame of its own site.
FRAMED_POLICY = POLICY | {
    "content-security-policy": POLICY["content-security-policy"].replace(
        "frame-ancestors 'none'", "frame-ancestors 'self'"
    ),
    "x-frame-options": "SAMEORIGIN",
}


class RateLimiter:
    """A token bucket for each address: so many requests per second, bursts of twice as many."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Whether one more request is allowed; if so, it is counted."""
        now = time.monotonic()
        tokens, then = self._buckets.pop(address, (2.0 * self._rate, now))
        tokens = min(2.0 * self._rate, tokens + (now - then) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[address] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return allowed


class Gate:
    """Wraps the application; also counts and logs requests, and answers errors.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    metrics : Metrics
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._rate = RateLimiter(settings.rate)
        self._failures = RateLimiter(settings.failures)
        self._token = settings.token.encode()
        self._page_secret = self._derived(b"everlearn page")
        self._page_key = self._derived(b"everlearn page key")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Response(send, self._settings.send_seconds)
        began = time.monotonic()
        try:
            await self._admitted(scope, receive, answer)
        except Refused as refused:
            await answer.respond(refused.status, body_of(refused.kind, str(refused)))
        except TimeoutError:
            LOG.warning("a client did not read its answer and was disconnected")
            raise
        except Exception:
            LOG.exception("a request failed")
            await answer.respond(500, body_of("ServiceFailed", "the service failed; see its log"))
        finally:
            route = getattr(scope.get("route"), "path", "other")
            took = time.monotonic() - began
            self._metrics.count(route, answer.status, took)
            # Nothing a client sent is logged, not even the request line, which may contain the
            # token.
            LOG.info("%s %s %d %.1f ms", scope["method"], route, answer.status, 1000 * took)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply the same rules to a WebSocket; a refused handshake is answered with 403."""
        headers = Headers(scope=scope)
        try:
            forwarded = self._is_ingress(scope, headers)
            self._require_allowed(scope, headers, ingress=forwarded)
            if not forwarded:
                self._require_token(scope, headers, _sender(scope))
        except Refused:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            LOG.info("WEBSOCKET refused")
            return
        began = time.monotonic()
        try:
            await self._app(scope, receive, send)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            LOG.info("WEBSOCKET %s %.0f s", route, time.monotonic() - began)

    async def _admitted(self, scope: Scope, receive: Receive, answer: "_Response") -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may take another part of this for the next request (RFC 9112, 6.1).
            raise Refused(400, "InvalidRequest", "the length of this request is given twice")
        forwarded = self._is_ingress(scope, headers)
        self._require_allowed(scope, headers, ingress=forwarded)
        if forwarded:
            answer.policy = FRAMED_POLICY
        elif scope["path"] == "/" and scope["query_string"]:
            await self._exchange_token(scope, _sender(scope), answer)
            return
        elif scope["path"] not in (HEALTH, READY):
            self._require_token(scope, headers, _sender(scope))
        await self._app(scope, receive, answer.send)

    def _is_ingress(self, scope: Scope, headers: Headers) -> bool:
        """Whether Home Assistant's supervisor forwarded this, having authenticated the user."""
        return _sender(scope) == self._settings.ingress and bool(
            INGRESS_PATH.fullmatch(headers.get(INGRESS_HEADER, ""))
        )

    def _require_allowed(self, scope: Scope, headers: Headers, *, ingress: bool) -> None:
        """Check host, origin and rate."""
        self._require_host(headers, any_name=ingress)
        _require_own_origin(scope, headers, any_scheme=ingress)
        if not self._rate.allows(_sender(scope)):
            raise Refused(429, "TooBusy", "too many requests from this address; wait a second")

    def _require_host(self, headers: Headers, *, any_name: bool) -> None:
        hosts = headers.getlist("host")
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (
            any_name or name == "localhost" or _is_address(name) or name in self._settings.hosts
        ):
            raise Refused(
                403,
                "NotAllowed",
                "this service does not have that name; use its address, or start it with "
                "--allow-host",
            )

    def _require_token(self, scope: Scope, headers: Headers, address: str) -> None:
        # A correct token is accepted, however many wrong ones come from the same address: behind a
        # proxy all clients have the same one.
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(token.strip()):
            return
        if self._authenticate_page(scope, headers):
            return
        raise self._no_token(address, ", or send its token as Authorization: Bearer TOKEN")

    def _no_token(self, address: str, otherwise: str = "") -> Refused:
        """Refuse a request without the token; more of them than the rate allows wait."""
        if not self._failures.allows(address):
            return Refused(429, "TooBusy", "too many wrong tokens from this address; wait a second")
        advice = "open the address that everlearn serve printed when it started"
        return Refused(401, "NotAllowed", advice + otherwise)

    def _authenticate_page(self, scope: Scope, headers: Headers) -> bool:
        """Whether the page sent this; if so, its key is removed from the address."""
        cookie = _cookie(headers.getlist("cookie"), _cookie_name(scope))
        if not hmac.compare_digest(cookie.encode("utf-8", "replace"), self._page_secret):
            return False
        if scope["path"] in COOKIE_PATHS or scope["path"].startswith("/page/"):
            return True
        fields = scope["query_string"].split(b"&")
        keys = [field for field in fields if field.startswith(PAGE_KEY)]
        if len(keys) != 1 or not hmac.compare_digest(keys[0][len(PAGE_KEY) :], self._page_key):
            return False
        scope["query_string"] = b"&".join(field for field in fields if field not in keys)
        return True

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self._token, purpose, "sha256").hex().encode()

    async def _exchange_token(self, scope: Scope, address: str, answer: "_Response") -> None:
        """Redirect to the page without the token in its address, but a cookie and a key."""
        try:
            query = scope["query_string"].decode("latin-1")
            given = parse_qs(query, max_num_fields=8).get("token", [])
        except ValueError:
            given = []
        if scope["method"] != "GET" or len(given) != 1 or not self._is_token(given[0]):
            raise self._no_token(address)
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = (
            f"{_cookie_name(scope)}={self._page_secret.decode()}; Path=/; HttpOnly; "
            f"SameSite=Strict; Max-Age={COOKIE_DAYS * 86_400}{secure}"
        )
        location = f"./#page={self._page_key.decode()}"
        await answer.respond(303, b"", {"location": location, "set-cookie": cookie})

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


class _Response:
    """Sends a response with the security headers; a client that does not read it times out."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self.status = 499
        self.policy = POLICY
        self._started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self.policy.items():
                headers.setdefault(name, value)
        async with asyncio.timeout(self._seconds):
            await self._send(message)

    async def respond(self, status: int, body: bytes, extra: dict[str, str] | None = None) -> None:
        """Send a complete response, unless one has begun."""
        if self._started:
            return
        headers = (extra if extra is not None else headers_of(status)) | {
            "content-length": str(len(body))
        }
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self.send(
            {"type": "http.response.start", "status": HTTPStatus(status), "headers": raw}
        )
        await self.send({"type": "http.response.body", "body": body})


def _sender(scope: Scope) -> str:
    """The address at the other end of the connection, whatever headers say."""
    return (scope.get("client") or ("",))[0]


def _require_own_origin(scope: Scope, headers: Headers, *, any_scheme: bool) -> None:
    """Check the origin, which browsers send and programs do not.

    Behind Home Assistant, which may be asked over HTTPS, either scheme is the page's own.
    """
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme"))
    schemes = ("http", "https") if any_scheme else (scheme or "http",)
    own = {f"{name}://{headers['host']}".lower() for name in schemes}
    foreign = any(origin.lower() not in own for origin in headers.getlist("origin"))
    site = headers.get("sec-fetch-site", "none")
    # Following a link to the page is allowed: it sends nothing and reveals nothing.
    visit = headers.get("sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
    if foreign or (site not in ("none", "same-origin") and not visit):
        raise Refused(403, "NotAllowed", "requests from other sites are not allowed")


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in host:
        return None
    return parts.hostname


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie_name(scope: Scope) -> str:
    """One per port, since browsers share cookies between ports."""
    return f"everlearn-{(scope.get('server') or ('', 0))[1]}"


def _cookie(headers: list[str], name: str) -> str:
    for header in headers:
        for pair in header.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                return value
    return ""
