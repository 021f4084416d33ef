"""Who may come in by the gateway, where it may lead, and when it ends."""

from __future__ import annotations

import asyncio
import logging

import pytest

from addons.config_values import Upstream
from addons.demo.authority import AuthorityPaths
from addons.gateway import Failure
from addons.outgoing import LocatedTarget, Origin, locate
from memory.exchange import SentTo
from tests.addons.gateway_parts import answer, bench, header_of, request_of, target_at, until_left, upstream
from tests.harness import RawRequest, Respond
from tests.own_time import OwnTime


async def test_a_ticket_is_good_once_and_only_with_its_proof() -> None:
    async with bench() as running, upstream(answer()) as server, running.connect() as connection:
        door = await running.open(target_at(server.port))
        other = await running.open(target_at(server.port))
        statuses = []
        for path, proof in [
            ("/", door.proof), (f"{door.path}/", door.proof), ("/nothing-of-the-kind", door.proof),
            (door.path, None), (door.path, ""), (door.path, "wrong"), (door.path, other.proof),
            (f"/x{door.path}", door.proof), ("/../" + door.path, door.proof),
        ]:  # fmt: skip
            await connection.send(path, proof)
            statuses.append((await connection.answer()).status)
        assert statuses == [403] * 9
        assert server.connections == 0
        # None of that has spoiled it.
        await connection.send(door.path, door.proof)
        assert (await connection.answer()).status == 200
        await connection.send(door.path, door.proof)
        assert (await connection.answer()).status == 404
        assert server.connections == 1


async def test_a_ticket_that_is_too_old_is_none() -> None:
    async with bench(ticket_seconds=0.05) as running, upstream(answer()) as server:
        door = await running.open(target_at(server.port))
        await asyncio.sleep(0.15)
        assert (await running.ask(door)).status == 404
        assert server.connections == 0


async def test_a_gateway_that_does_not_listen_expects_nothing() -> None:
    async with bench() as running:
        await running.gateway.stop()
        with pytest.raises(RuntimeError):
            await running.open()
        await running.gateway.stop()


async def test_requests_that_the_proxy_let_pass_are_not_too_large_for_the_gateway() -> None:
    async with bench() as running, upstream(answer()) as server, running.connect() as connection:
        door = await running.open(target_at(server.port))
        await connection.send(door.path, f"{door.proof}\r\nCookie: {'c' * 100_000}")
        assert (await connection.answer()).status == 200


async def test_the_address_that_was_judged_is_the_one_that_is_dialled() -> None:
    """The name leads nowhere by now, and the Host header still names it."""
    async with bench() as running, upstream(answer()) as server:
        target = target_at(server.port, url=Upstream("http", "gone.invalid", server.port))
        judged = (await locate(target_at(server.port), "m")).addresses
        door = running.gateway.open(
            request_of(), [LocatedTarget(target, "m", "local", judged)], on_sent=running.sent.append
        )
        assert (await running.ask(door)).status == 200
        assert header_of(server.requests[0], b"Host") == b"gone.invalid:%d" % server.port
        assert running.reached == [f"gone.invalid:{server.port}"]


async def test_all_addresses_of_a_name_are_tried() -> None:
    async with bench() as running, upstream(answer()) as server:
        target = target_at(server.port, url=Upstream("http", "localhost", server.port))
        received = await running.ask(await running.open(target))
        assert (received.status, running.sent) == (200, [SentTo("claude-test", "local", f"localhost:{server.port}")])


@pytest.mark.parametrize(
    ("changes", "model", "expected"),
    [
        ({}, "m", ("m", "local")),
        ({"model": "qwen3:8b"}, "m", ("qwen3:8b", "local")),
        ({"local": False}, "m", ("m", "cloud")),
        ({"model": "gpt-oss:120b-cloud"}, "m", ("gpt-oss:120b-cloud", "cloud")),
        ({"model": "gpt-oss:120b-cloud", "local": True}, "m", ("gpt-oss:120b-cloud", "cloud")),
        ({}, "kimi:cloud", ("kimi:cloud", "cloud")),
        (
            {"name": "lab", "model": "edge-cloud", "local": True, "protocols": ("anthropic",)},
            "m",
            ("edge-cloud", "local"),
        ),
        ({"url": Upstream("http", "8.8.8.8", 80)}, "m", ("m", "cloud")),
        ({"url": Upstream("http", "8.8.8.8", 80), "local": True}, "m", ("m", "local")),
        ({"url": Upstream("http", "nowhere.invalid", 80)}, "m", ("m", "cloud")),
        ({"url": Upstream("http", "192.168.7.7", 80)}, "m", ("m", "local")),
    ],
)
async def test_whether_a_target_is_local(changes: dict[str, object], model: str, expected: tuple[str, str]) -> None:
    located = await locate(target_at(11434, **changes), model)
    assert (located.sent_to.model, located.to) == expected


async def test_a_target_that_is_the_suite_itself_is_not_dialled() -> None:
    async with bench() as running, upstream(answer()) as page, upstream(answer()) as proxy:
        assert running.gateway.port in running.own_ports
        running.own_ports.add(page.port)
        running.proxy_ports.add(proxy.port)
        targets = [
            target_at(port, f"{host}:{port}", url=Upstream("http", host, port))
            for port in (page.port, proxy.port, running.gateway.port or 0)
            for host in ("127.0.0.1", "localhost", "0.0.0.0", "127.0.0.9")
        ]
        received = await running.ask(await running.open(*targets))
        assert received.body.count(b"is mitmemory itself") == 12
        assert (page.connections, proxy.connections, running.sent) == (0, 0, [])


async def test_a_provider_that_is_the_suite_itself_is_not_dialled() -> None:
    async with bench() as running, upstream(answer()) as page:
        running.own_ports.add(page.port)

        async def otherwise(_: tuple[Failure, ...]) -> Origin:
            return Origin("http", "localhost", page.port, SentTo("m", "cloud", "a:1"))

        received = await running.ask(await running.open(otherwise=otherwise))
        assert (received.status, page.connections, running.sent) == (502, 0, [])


async def test_a_target_may_have_an_ipv6_address() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nsix")
        writer.close()

    try:
        server = await asyncio.start_server(serve, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]
    async with server, bench() as running:
        received = await running.ask(await running.open(target_at(port, url=Upstream("http", "::1", port))))
        assert (received.body, running.sent) == (b"six", [SentTo("claude-test", "local", f"[::1]:{port}")])


async def test_a_targets_certificate_is_verified_by_the_authority_that_mitmproxy_is_told(
    authority: AuthorityPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with upstream(answer(b"safe"), tls=authority.server_context()) as server:
        target = target_at(server.port, "lab", url=Upstream("https", "localhost", server.port))
        async with bench(trusted=str(authority.authority)) as running:
            assert (await running.ask(await running.open(target))).body == b"safe"
            assert running.reached == [f"localhost:{server.port}"]
            named = target_at(server.port, "lab", url=Upstream("https", "other.test", server.port))
            other = LocatedTarget(named, "m", "local", (await locate(target, "m")).addresses)
            refused = await running.ask(running.gateway.open(request_of(), [other], on_sent=running.sent.append))
            assert b"lab has a certificate that was not accepted" in refused.body
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.authority))
        async with bench() as running:
            refused = await running.ask(await running.open(target))
            assert b"lab has a certificate that was not accepted" in refused.body
            assert running.sent == []
        async with bench(trusted=str(authority.authority) + ".gone") as running:
            refused = await running.ask(await running.open(target))
            assert b"lab cannot be verified: ssl_verify_upstream_trusted_ca (No such file or directory)" in refused.body
        assert len(server.requests) == 1


async def test_the_environment_leads_no_request_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as running, upstream(answer()) as server, upstream(answer()) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        assert (await running.ask(await running.open(target_at(server.port)))).status == 200
        assert proxy.connections == 0


def streaming(left: asyncio.Event) -> Respond:
    async def respond(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"5\r\nhello\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            left.set()

    return respond


@pytest.mark.parametrize("moment", ["before the first byte", "in mid-stream"])
async def test_a_client_that_leaves_ends_the_request_at_the_target(
    moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    left, arrived = asyncio.Event(), asyncio.Event()

    async def wait(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await until_left(writer)
        left.set()

    respond = streaming(left) if moment == "in mid-stream" else wait
    async with bench() as running, upstream(respond) as server:
        door = await running.open(target_at(server.port))
        async with running.connect() as connection:
            await connection.send(door.path, door.proof)
            await (connection.chunk_after_head() if moment == "in mid-stream" else arrived.wait())
        time_since = OwnTime()
        async with asyncio.timeout(60):
            await left.wait()
        assert time_since.seconds() < 1
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO] == []


async def test_the_end_comes_within_seconds_in_mid_stream() -> None:
    left = asyncio.Event()
    async with bench() as running, upstream(streaming(left)) as server, running.connect() as connection:
        door = await running.open(target_at(server.port))
        await connection.send(door.path, door.proof)
        await connection.chunk_after_head()
        time_since = OwnTime()
        await running.gateway.stop()
        assert time_since.seconds() < 3
        async with asyncio.timeout(60):
            await left.wait()
        assert time_since.seconds() < 4
