"""`then: redact` with a real proxy process and real TLS: the server gets all but the note's lines, to the byte."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import yaml
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve as serve_sockets

from addons.demo.authority import PROVIDER_NAMES, AuthorityPaths, make_authority
from tests.addons.conftest import Serve, configuration
from tests.addons.playback import Playback, Played, Recorded
from tests.addons.test_dispatch import CLOUDS, asked, sent_until_told
from tests.addons.test_websocket import turn
from tests.harness import RawRequest, RawUpstream, SuiteProcess
from tests.memory.redacting import leaks

NOTE = """---
tags: [money]
---
# The third drawer

The ledger of the harbour lies in the third drawer from the left.
PIN 4711
- Schlüssel: Möwe
Whoever asks for the berth of the grey boat pays twice, and in coin.
"""
SECRETS = tuple(NOTE.splitlines()[5:])
ROWS = ["What is this?", SECRETS[0], SECRETS[1], "", "---", SECRETS[2], SECRETS[3], "Is it “much”?"]
RULE = {"name": "strip the ledger", "when": {"note": "vault/Ledger.md"}, "then": "redact"}
MARK = b"[withheld]"
SSE = b'event: ping\ndata: {"type": "ping"}\n\n'
JSON = b'{"ok": true}'


def escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


class Form(NamedTuple):
    """How a text is written: each row on its own, what stands between rows, what around them, and then the whole body."""

    row: Callable[[str], bytes] = lambda row: json.dumps(row, ensure_ascii=False)[1:-1].encode()
    between: bytes = rb"\n"
    before: bytes = b""
    """What a tool writes before each row: it stays."""
    around: tuple[bytes, bytes] = (b"", b"")
    body: Callable[[bytes], bytes] = bytes
    headers: tuple[tuple[str, str], ...] = ()

    def text(self, rows: Sequence[str], secret: Sequence[str] = ()) -> bytes:
        start, end = self.around
        rows_written = self.between.join(self.before + (MARK if row in secret else self.row(row)) for row in rows)
        return start + rows_written + end


FORMS = {
    "plain": Form(),
    "unicode escapes": Form(row=lambda row: "".join(f"\\u{ord(character):04x}" for character in row).encode()),
    "decomposed": Form(row=lambda row: unicodedata.normalize("NFD", row).encode()),
    "JSON in JSON": Form(
        row=lambda row: escaped(escaped(row).decode()),
        between=rb"\\n",
        around=(rb"{\"output\": \"", rb"\", \"more\": [1, \"two\"]}"),
    ),
    "numbered": Form(before=rb"    12\t"),
    "gzip": Form(body=lambda body: gzip.compress(body, mtime=0), headers=(("content-encoding", "gzip"),)),
}  # fmt: skip


def body_with(protocol: str, text: bytes, **more: Any) -> tuple[str, bytes]:
    """Where a request in a protocol goes, and its body, in which the text stands."""
    if protocol == "ollama":
        body: dict[str, Any] = {"model": "tide-1", "messages": [{"role": "user", "content": "@@"}]}
        url = "http://127.0.0.1:11434/api/chat"
    else:
        url, body = asked(protocol, "@@")
    start, _, end = json.dumps({"padding": ["é", 1.50, {}], **body, **more}, ensure_ascii=False).partition("@@")
    return url, start.encode() + text + end.encode()


PROTOCOLS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock", "ollama")


def vault_of(folder: Path, text: str = NOTE) -> Path:
    vault = folder / "vault"
    vault.mkdir()
    (vault / "Ledger.md").write_text(text, "utf-8")
    return vault


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> AuthorityPaths:
    bedrock = "bedrock-runtime.us-east-1.amazonaws.com"
    return make_authority(tmp_path_factory.mktemp("authority"), (*PROVIDER_NAMES, bedrock))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("version", [1, 2])
async def test_the_server_gets_everything_but_the_notes_lines(
    tmp_path: Path, authority: AuthorityPaths, version: int, stream: bool
) -> None:
    answer = Recorded("", b"", SSE if stream else JSON, "text/event-stream" if stream else "application/json")
    playback = Playback()
    expected: dict[str, bytes] = {}
    async with playback.serve(authority):
        ways = dict.fromkeys((*CLOUDS, "ollama"), f"https://127.0.0.1:{playback.port}")
        config = configuration(vault_of(tmp_path), ways, rules=[RULE])
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            context = ssl.create_default_context(cafile=str(suite.ca))
            async with httpx2.AsyncClient(
                proxy=suite.proxy, verify=context, http1=version == 1, http2=version == 2, timeout=120
            ) as client:
                for protocol in PROTOCOLS[: -1 if version == 2 else None]:  # without TLS there is no HTTP/2 by a proxy
                    for form, how in FORMS.items():
                        name = f"{protocol}, {form}"
                        playback.plays = {**playback.plays, name: Played(answer, size=7)}
                        more = {"stream": True} if stream else {}
                        rows = [unicodedata.normalize("NFC", row) for row in ROWS]
                        url, body = body_with(protocol, how.text(rows), **more)
                        expected[name] = body_with(protocol, how.text(rows, SECRETS), **more)[1]
                        headers = {"content-type": "application/json", "x-play": name, **dict(how.headers)}
                        answered = await client.post(url, content=how.body(body), headers=headers)
                        assert (answered.status_code, answered.content) == (200, answer.answer), name
                        assert answered.http_version == f"HTTP/{version}" + (".1" if version == 1 else "")
            entries = suite.activity(len(expected))
            exposure = suite.api("api/memory").body["exposure"]
    for name, body in expected.items():
        assert playback.bodies[name] == body, name
        assert leaks(playback.bodies[name], SECRETS) == set(), name
        headers = dict(playback.headers[name])
        assert (b"content-encoding" in headers, int(headers[b"content-length"])) == (False, len(body)), name
    assert len(entries) == len(expected)
    for entry in entries:
        assert (entry["outcome"], len(entry["sentTo"]), entry["scan"]["state"]) == ("answered", 1, "complete")
        assert [(note["id"], note["by"], note["resent"]) for note in entry["notes"]] == [
            ("vault/Ledger.md", "content", False)
        ]
        assert entry["decision"] == {
            "action": "redact",
            "rule": RULE["name"],
            "rules": [{"name": RULE["name"], "action": "redact", "notes": ["vault/Ledger.md"]}],
        }
    assert exposure == {}


# ---- what else happens on the way


class Sent(NamedTuple):
    status: int
    message: str


@pytest.fixture
def start(tmp_path: Path, upstream: RawUpstream, authority: AuthorityPaths) -> Iterator[Callable[..., SuiteProcess]]:
    """`start(*rules, targets=[…])`: a suite whose Anthropic and OpenAI are the upstream."""
    running: list[SuiteProcess] = []

    def begin(*rules: dict[str, Any], **more: Any) -> SuiteProcess:
        ways = dict.fromkeys(("anthropic", "openai"), f"https://127.0.0.1:{upstream.port}")
        config = configuration(vault_of(tmp_path), ways, rules=list(rules), **more)
        running.append(SuiteProcess(tmp_path, config, trust=authority.authority).__enter__())
        return running[-1]

    yield begin
    for suite in running:
        suite.__exit__()


def post(suite: SuiteProcess, body: bytes, *flags: str) -> Sent:
    """Send a body to Anthropic, by a connection of its own."""
    command = ["curl", "-sS", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]
    command += ["-H", "Content-Type: application/json", "-H", "Expect:", "--data-binary", "@-", "-w", "\n%{http_code}"]
    command += [*flags, "https://api.anthropic.com/v1/messages"]
    ran = subprocess.run(command, input=body, capture_output=True, check=True)
    answer, _, status = ran.stdout.rpartition(b"\n")
    return Sent(int(status), json.loads(answer).get("error", {}).get("message", ""))


def said(*rows: str, secret: Sequence[str] = (), mark: str = "[withheld]", model: str = "tide-1") -> bytes:
    text = "\n".join(mark if row in secret else row for row in rows)
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()


def target(port: int, **more: Any) -> dict[str, Any]:
    return {"name": "home", "url": f"http://127.0.0.1:{port}", "protocols": ["anthropic"], **more}


async def fails(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oh no\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


HOME = {"name": "ledgers go home", "when": {"client": "*", "to": "cloud"}, "then": "redirect", "targets": ["home"]}
AT_HOME = {"name": "strip at home", "when": {"note": "vault/Ledger.md", "to": "local"}, "then": "redact"}


def test_a_chunked_body_is_sent_chunked(start: Callable[..., SuiteProcess], upstream: RawUpstream) -> None:
    assert post(start(RULE), said(*ROWS), "-H", "Transfer-Encoding: chunked", "--http1.1").status == 200
    received, sent = upstream.requests[-1], said(*ROWS, secret=SECRETS)
    assert received.body == b"%x\r\n%s\r\n0\r\n\r\n" % (len(sent), sent)
    assert b"content-length" not in received.head.lower()


def test_a_target_and_the_provider_each_get_what_the_rules_let_them_have(
    start: Callable[..., SuiteProcess], serve: Serve, upstream: RawUpstream
) -> None:
    """The target is told its model, and so that is what changes there beside the lines; then the way back."""
    home = serve(fails, tls=False)
    to_cloud = {"name": "strip for clouds", "when": {"note": "vault/Ledger.md", "to": "cloud"}, "then": "redact",
                "placeholder": "[{title}]"}  # fmt: skip
    suite = start({**HOME, "otherwise": "allow"}, AT_HOME, to_cloud, targets=[target(home.port, model="own-1")])
    body = gzip.compress(said(*ROWS))
    assert post(suite, body, "-H", "Content-Encoding: gzip", "-H", "x-api-key: secret").status == 200
    [at_home] = home.requests
    assert at_home.body == said(*ROWS, secret=SECRETS, mark="[Ledger]", model="own-1")
    assert b"content-encoding" not in at_home.head.lower()
    received = upstream.requests[-1]
    assert received.body == said(*ROWS, secret=SECRETS, mark="[Ledger]")
    assert (b"content-encoding" in received.head.lower(), b"x-api-key: secret" in received.head) == (False, True)
    entry = suite.activity()[0]
    assert [one["to"] for one in entry["sentTo"]] == ["local", "cloud"]
    assert entry["decision"]["action"] == "redact"
    assert suite.api("api/memory").body["exposure"] == {}


def test_a_local_target_may_have_what_a_cloud_may_not(
    start: Callable[..., SuiteProcess], serve: Serve, upstream: RawUpstream
) -> None:
    home = serve(tls=False)
    connections = upstream.connections
    suite = start(HOME, AT_HOME, targets=[target(home.port)])
    assert post(suite, said(*ROWS)).status == 200
    assert (home.requests[0].body, upstream.connections) == (said(*ROWS, secret=SECRETS), connections)
    entry = suite.activity()[0]
    assert (entry["decision"]["action"], entry["to"]) == ("redirect", "local")
    assert [(one["name"], one["action"]) for one in entry["decision"]["rules"]] == [
        ("ledgers go home", "redirect"),
        ("strip at home", "redact"),
    ]
    assert suite.api("api/memory").body["exposure"] == {}


def test_a_quote_goes_with_every_row_that_it_touches(start: Callable[..., SuiteProcess], upstream: RawUpstream) -> None:
    rows = [
        "Somebody wrote that the ledger of the harbour",
        "lies in the third drawer from the left, which nobody had told us.",
        "Well.",
    ]
    assert post(start(RULE), said(*rows)).status == 200
    assert upstream.requests[-1].body == said(*rows, secret=rows[:2])


def test_what_cannot_be_withheld_is_refused(start: Callable[..., SuiteProcess], upstream: RawUpstream) -> None:
    suite, connections = start(RULE), upstream.connections
    thinking = {"type": "thinking", "thinking": NOTE, "signature": "c2lnbmVk"}
    body = {"model": "tide-1", "messages": [{"role": "assistant", "content": [thinking]}]}
    assert post(suite, json.dumps(body).encode()) == (
        400,
        'mitmemory blocked this request: "strip the ledger" keeps "Ledger" from tide-1 (cloud)',
    )
    assert upstream.connections == connections
    assert suite.activity()[0]["sentTo"] == []


def test_rules_and_notes_that_change_count_from_the_next_request_on(
    start: Callable[..., SuiteProcess], upstream: RawUpstream
) -> None:
    suite = start()
    written = yaml.safe_load(suite.config.read_text("utf-8"))

    def until(rules: list[Any], sent: bytes) -> None:
        suite.config.write_text(yaml.safe_dump(written | {"rules": rules}), "utf-8")

        def is_sent() -> bool:
            assert post(suite, said(*ROWS)).status == 200
            return upstream.requests[-1].body == sent

        suite.wait_for(is_sent, "the new rules")

    until([RULE], said(*ROWS, secret=SECRETS))
    (suite.config.parent / "vault" / "Ledger.md").write_text(NOTE + "It is much\n", "utf-8")
    rows = [*ROWS, "it is much"]
    assert suite.api("api/memory/refresh", method="POST").status == 200
    assert post(suite, said(*rows)).status == 200
    assert upstream.requests[-1].body == said(*rows, secret=(*SECRETS, rows[-1]))
    until([], said(*ROWS))


async def test_a_message_on_a_socket_that_is_open_is_not_altered(tmp_path: Path, authority: AuthorityPaths) -> None:
    received: list[str | bytes] = []

    async def keep(socket: Any) -> None:
        async for message in socket:
            received.append(message)  # noqa: PERF401 - it is looked at while more may come

    async with serve_sockets(keep, "127.0.0.1", 0, ssl=authority.server_context()) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = configuration(vault_of(tmp_path), {"openai": f"https://127.0.0.1:{port}"})
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            context = ssl.create_default_context(cafile=str(suite.ca))
            async with connect(
                "wss://api.openai.com/v1/responses", proxy=suite.proxy, ssl=context, open_timeout=60
            ) as socket:
                written = yaml.safe_load(suite.config.read_text("utf-8"))
                suite.config.write_text(yaml.safe_dump(written | {"rules": [RULE]}), "utf-8")
                sent, told = await sent_until_told(socket, turn(NOTE, model="tide-1"), received)
                assert told["error"]["message"].startswith('mitmemory blocked this request: "strip the ledger" keeps ')
    assert received == [turn(NOTE, model="tide-1")] * (sent - 1)
