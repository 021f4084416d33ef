"""What is sent where, settled before anything is dialled: a request as one target gets it, or its own provider."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from yarl import URL

from addons.config_values import Address as HostPort
from addons.credentials import Headers, NoKeyError, allowed_headers, allowed_query, key_header
from addons.encodings import EncodingError, decode
from addons.flows import INLINE_BYTES
from addons.guard import Address, resolve
from addons.model_name import with_model
from addons.providers import Provider, is_address
from addons.target_paths import path_at_target
from addons.targets import TargetConfig
from memory.exchange import Place, Protocol, SentTo

_MODEL_IN_PATH = frozenset({"gemini", "bedrock"})
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class UnsuitableError(Exception):
    """A request cannot be sent to this target. The message says why, after the target's name."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model, as its client sent it but for what was redacted.

    `path` has its query. `body` is encoded as its headers say. None of what may hold a credential is in the `repr`.
    """

    method: str
    path: str = field(repr=False)
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    protocol: Protocol
    model: str

    def with_body(self, body: bytes | None) -> ModelRequest:
        """The same with another body, which is not encoded; None: as it is."""
        if body is None:
            return self
        headers = tuple(one for one in self.headers if one[0].lower() != "content-encoding")
        return replace(self, body=body, headers=headers)


@dataclass(frozen=True, slots=True)
class LocatedTarget:
    """A target, and where a request to it really goes. `addresses` are those that were judged; no other is dialled."""

    target: TargetConfig
    model: str
    to: Place
    addresses: tuple[Address, ...]

    @property
    def sent_to(self) -> SentTo:
        """What is recorded once it has received a body."""
        url = self.target.url
        return SentTo(self.model, self.to, str(HostPort(url.host, url.port)))


@dataclass(frozen=True, slots=True)
class Origin:
    """The provider that a request was for, to which it goes after all. No `addresses`: they are looked up to dial.

    `host` is what it is called, `dialled` and `port` are where to connect to (None: `host`).
    """

    scheme: str
    host: str
    port: int
    sent_to: SentTo
    addresses: tuple[Address, ...] = ()
    body: bytes | None = field(default=None, repr=False)
    """What it gets, not encoded, where something is withheld from it; None: the body as it came."""
    dialled: str | None = None
    host_header: str | None = field(default=None, repr=False)
    """As the client wrote it. None: made of `host` and `port`."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent. Timeouts are in seconds; None: as long as it takes.

    `last`: whatever status comes is the answer. Otherwise 5xx and 3xx are failures.
    """

    name: str
    method: str
    url: URL = field(repr=False)
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    addresses: tuple[Address, ...]
    sent_to: SentTo
    connect_timeout: float
    first_byte_timeout: float | None
    last: bool = False


async def locate(target: TargetConfig, model: str) -> LocatedTarget:
    """Where a request that names `model` ends up when it is sent to this target (interception.md, "Local or cloud")."""
    addresses = tuple(await resolve(target.url.host, target.url.port))
    named = target.model or model
    judged = Provider(target.name, (), local=target.local, protocol="ollama" if "ollama" in target.protocols else None)
    return LocatedTarget(target, named, judged.place(named, addresses), addresses)


async def outgoing_to_target(
    request: ModelRequest, located: LocatedTarget, *, environ: Mapping[str, str], largest_body: int
) -> Outgoing:
    """The request as this target gets it: no credentials but its own, its model's name, its path.

    Raises:
        UnsuitableError: it speaks another protocol, has no key, or the body cannot be given its model's name.

    """
    target = located.target
    if request.protocol not in target.protocols:
        raise UnsuitableError(f"does not speak {request.protocol}")
    path = path_at_target(request.protocol, request.path, target.url.prefix, target.model)
    if path is None:
        raise UnsuitableError("has no place for this kind of request")
    if not located.addresses:
        raise UnsuitableError(f"is at {target.url.host}, which is not known")
    try:
        key = key_header(request.protocol, target.api_key_env, environ)
    except NoKeyError as error:
        raise UnsuitableError(f"has no key: {error}") from None
    headers, body = allowed_headers(request.headers), request.body
    if target.model is not None and request.protocol not in _MODEL_IN_PATH:
        encoding = ",".join(value for name, value in headers if name.lower() == "content-encoding")
        named = (body, encoding, target.model, largest_body)
        try:
            if encoding or len(body) > INLINE_BYTES:
                body = await asyncio.to_thread(_renamed, *named)
            else:
                body = _renamed(*named)
        except ValueError as error:
            raise UnsuitableError(f"cannot be told its model: {error}") from None
        headers = tuple(one for one in headers if one[0].lower() != "content-encoding")
    return Outgoing(
        name=target.name,
        method=request.method,
        url=_url(
            target.url.scheme, target.url.host, target.url.port, path, allowed_query(request.path.partition("?")[2])
        ),
        headers=(*headers, *key),
        body=body,
        addresses=located.addresses,
        sent_to=located.sent_to,
        connect_timeout=target.connect_timeout,
        first_byte_timeout=target.first_byte_timeout,
    )


async def outgoing_to_origin(request: ModelRequest, origin: Origin, *, connect_timeout: float) -> Outgoing:
    """The request as it was, credentials and all, for the provider that they belong to."""
    request = request.with_body(origin.body)
    path, _, query = request.path.partition("?")
    named = {
        name.strip().lower()
        for header, value in request.headers
        if header.lower() == "connection"
        for name in value.split(",")
    }
    dropped = _HOP_BY_HOP | named
    dialled = origin.dialled or origin.host
    # The name is asked for in TLS too, whatever is dialled. Of an address nothing is asked, and it would be dialled itself.
    host = dialled if is_address(origin.host) else origin.host
    said = (("Host", origin.host_header),) if origin.host_header else ()
    return Outgoing(
        name=origin.host,
        method=request.method,
        url=_url(origin.scheme, host, origin.port, path, query),
        headers=(*said, *(one for one in request.headers if one[0].lower() not in dropped)),
        body=request.body,
        addresses=origin.addresses or tuple(await resolve(dialled, origin.port)),
        sent_to=origin.sent_to,
        connect_timeout=connect_timeout,
        first_byte_timeout=None,
        last=True,
    )


def _renamed(body: bytes, encoding: str, model: str, largest_body: int) -> bytes:
    try:
        return with_model(decode(body, encoding, largest_body), model)
    except EncodingError:
        raise
    except ValueError:
        raise ValueError("the body is no JSON object") from None


def _url(scheme: str, host: str, port: int, path: str, query: str) -> URL:
    # As it is written: a path that is encoded anew is another one to some servers.
    host = f"[{host}]" if ":" in host else host
    return URL.build(scheme=scheme, host=host, port=port, path=path, query_string=query, encoded=True)
