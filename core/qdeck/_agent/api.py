"""The API: health, dead letters, purges, metrics. A token guards it, and it only reads unless purges are allowed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from qdeck._agent import dead_letters, metrics
from qdeck._agent.options import host_and_port, is_forwarded, is_loopback
from qdeck._engine import codec
from qdeck._errors import NotAllowed, OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable, UsageError
from qdeck._hidden_characters import escaped_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from qdeck._agent.maintenance import Maintenance
    from qdeck._agent.options import AgentOptions

    Handler = Callable[[Request], Awaitable[Response]]

MOST_LETTERS: Final = 1000
LETTERS: Final = 50
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
_CODES: Final = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}


def make_app(options: AgentOptions, maintenance: Maintenance, event: Callable[[dict[str, Any]], None]) -> Starlette:
    """Return the API as an ASGI application; report internal errors to `event`."""
    api = _Api(options, maintenance, event)
    app = Starlette(
        routes=[
            Route("/api/v1/queue/health", api.guarded(api.health), methods=["GET"]),
            Route("/api/v1/queue/dlq", api.guarded(api.dlq), methods=["GET"]),
            Route("/api/v1/queue/purge", api.guarded(api.purge), methods=["POST"]),
            Route("/metrics", api.open(api.metrics), methods=["GET"]),
            Route("/healthz", api.open(api.healthz), methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, QdeckError: _our_error},
    )
    app.router.redirect_slashes = False  # a redirect goes to the host that the request names, maybe with the token
    return app


class _Api:
    def __init__(
        self, options: AgentOptions, maintenance: Maintenance, event: Callable[[dict[str, Any]], None]
    ) -> None:
        self._options = options
        self._maintenance = maintenance
        self._event = event

    def open(self, handler: Handler) -> Handler:
        """Return the handler with its internal errors logged: a caller gets their class only."""

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except (HTTPException, QdeckError):
                raise
            except Exception as error:  # noqa: BLE001 - one request must not end the agent
                fault = type(error).__name__
                self._event({"event": "failed", "request": _path(request), "error": f"{fault}: {error}"})
                return error_response(500, f"the agent failed: {fault}", "See the agent's log.")

        return handle

    def guarded(self, handler: Handler) -> Handler:
        """Return the handler behind the token."""

        async def handle(request: Request) -> Response:
            self._check_token(request)
            return await handler(request)

        return self.open(handle)

    def _check_token(self, request: Request) -> None:
        token = self._options.token
        if token is None:
            raise _Refusal(
                403, "this agent has no HTTP token, so it refuses every request", "Set QDECK_HTTP_TOKEN for the agent."
            )
        given = request.headers.get("x-auth-token", "")
        scheme, _, word = request.headers.get("authorization", "").partition(" ")
        if not given and scheme.lower() == "bearer":
            given = word.strip()
        # Digests have one length, and headers may have bytes that are not ASCII.
        if not hmac.compare_digest(_digest(given), _digest(token)):
            what = "the token is wrong" if given else "the request has no token"
            raise _Refusal(401, what, "Send it as X-AUTH-TOKEN or Authorization: Bearer.")

    async def health(self, _: Request) -> Response:
        return _json(await self._maintenance.report())

    async def dlq(self, request: Request) -> Response:
        known = {"queue", "limit"}
        _check_names(request, known)
        limit = _whole(request, "limit", LETTERS, MOST_LETTERS)
        return _json(
            await dead_letters.dead_letters(self._maintenance.readers, request.query_params.get("queue"), limit)
        )

    async def purge(self, request: Request) -> Response:
        _check_names(request, {"dry_run", "limit"})
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            # Ignored, dry_run=true in a body would be a purge.
            raise _Refusal(400, "the request has a body", "Put parameters into the URL, such as ?dry_run=true")
        limit = _whole(request, "limit", MOST_LETTERS, 100_000)
        dry = self._is_dry(request)
        if not dry and "limit" in request.query_params:
            raise _Refusal(
                400,
                "limit works only with dry_run=true: a purge takes everything that its rules match",
                "Leave limit out.",
            )
        if not dry and not self._options.allow_purge:
            hint = "Add ?dry_run=true, or set allow_purge = true in [agent] of the agent's qdeck.toml."
            raise _Refusal(403, "this agent does not allow purges over HTTP", hint)
        if not dry and self._options.read_only:
            raise _Refusal(403, "the agent's context is read-only", "Add ?dry_run=true to see what a purge would do.")
        purged = await self._maintenance.purge_on_request(dry_run=dry, limit=limit)
        if not dry:
            known = {name: purged[name] for name in ("batch", "applied", "counts", "undo_until")}
            self._event({"event": "purged", "through": "the API", **known, "skipped": len(purged["skipped"])})
        return _json(purged)

    def _is_dry(self, request: Request) -> bool:
        word = request.query_params.get("dry_run", "false").lower()
        if word not in (*_TRUE, *_FALSE):
            raise _Refusal(400, f"dry_run={word[:100]!r} is neither true nor false", "Write dry_run=true")
        return word in _TRUE

    async def metrics(self, request: Request) -> Response:
        # A scraper on this machine needs no token; for others names of queues are not public.
        if self._options.http is not None and not (self._options.http.is_loopback and _is_local(request)):
            self._check_token(request)
        # In a thread: with ten thousand queues the text takes a second to make, and leases have to be renewed.
        text = await asyncio.to_thread(metrics.expose, *await self._maintenance.metrics_data())
        return Response(text, headers=_HEADERS | {"Content-Type": metrics.CONTENT_TYPE})

    async def healthz(self, _: Request) -> Response:
        try:
            await self._maintenance.ping()
        except QdeckError:
            # No address here: this is public.
            return _json({"status": "unhealthy", "reason": "the server does not answer"}, 503)
        return _json({"status": "ok"})


class _Refusal(HTTPException):
    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(code, message)
        self.hint = hint


def _path(request: Request) -> str:
    # Not from the URL, which is made with the Host header: that may be anything.
    return str(request.scope["path"])[:200]


def _is_local(request: Request) -> bool:
    """Return whether a request was sent to this machine under its own name and not by a proxy. The name matters: a
    page in a browser here can resolve a name of its own to this address (DNS rebinding) and read the reply."""
    host = host_and_port(request.headers.get("host", ""))
    return host is not None and is_loopback(host[0]) and not is_forwarded(request.headers)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _check_names(request: Request, known: set[str]) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if given.count(name) > 1:
            raise _Refusal(400, f"the parameter {name[:100]!r} is given twice", "Give it once.")
        if name not in known:
            raise _Refusal(400, f"unknown parameter {name[:100]!r}", f"Use one of: {', '.join(sorted(known))}")


def _whole(request: Request, name: str, usual: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and 1 <= int(text) <= most):
        raise _Refusal(400, f"{name}={text[:100]!r} is out of range", f"Give a whole number from 1 to {most:,}")
    return int(text)


def _json(value: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    # It may be shown by curl in a terminal.
    text = escaped_json(codec.encode_json(value).decode())
    return Response(text, code, headers=_HEADERS | (headers or {}), media_type="application/json; charset=utf-8")


def error_response(code: int, message: str, hint: str = "", headers: dict[str, str] | None = None) -> Response:
    """Return an error as JSON."""
    word = _CODES.get(code, "unavailable" if code == 503 else "error")
    return _json({"error": word, "message": message, "hint": hint}, code, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    code = getattr(error, "status_code", 500)
    hint = getattr(error, "hint", "")
    headers = dict(getattr(error, "headers", None) or {})
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    message = str(getattr(error, "detail", "")) or "error"
    if code == 405:
        message = f"{request.method} is not allowed for {_path(request)}"
    if code == 404 and not hint:
        message, hint = f"unknown path {_path(request)}", "Use /api/v1/queue/health, /metrics or /healthz."
    return error_response(code, message, hint, headers)


async def _our_error(_: Request, error: Exception) -> Response:
    kinds: tuple[tuple[type[QdeckError], int], ...] = (
        (dead_letters.UnknownQueue, 404),
        (UsageError, 400),
        (NotAllowed, 403),
        (ServerUnreachable, 503),
        (ServerRefused, 503),
        (OutcomeUnknown, 503),
    )
    code = next(
        (code for kind, code in kinds if isinstance(error, kind)), 503 if isinstance(error, ServerRefused) else 500
    )
    return error_response(code, str(error), getattr(error, "hint", ""))
