from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import httpx
import pytest

from addons.demo.authority import make_authority
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from tests.e2e.h2_model import serve_h2


async def test_the_model_answers_over_http2(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    model = ScriptedModel(lambda _protocol, _body: Reply("Hi there"))
    trust = ssl.create_default_context(cafile=str(authority.authority))
    async with (
        serve_h2(model, authority) as port,
        httpx.AsyncClient(http2=True, verify=trust, trust_env=False) as client,
    ):
        answer = await client.post(
            f"https://127.0.0.1:{port}/v1/messages?beta=true", json={"model": "m", "stream": True}
        )
    assert answer.http_version == "HTTP/2"
    assert answer.text.startswith("event: message_start\n")
    assert answer.text.endswith("\n\n")
    assert [(one.target, one.http_version, one.secure) for one in model.received] == [
        ("/v1/messages?beta=true", "2", True)
    ]


async def test_a_websocket_is_refused_with_an_answer(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    model = ScriptedModel()
    trust = ssl.create_default_context(cafile=str(authority.authority))
    async with serve_h2(model, authority) as port, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"https://127.0.0.1:{port}/v1/responses", ssl=trust)
    assert refused.value.status == 426
    assert [(one.method, one.target, one.http_version, one.secure) for one in model.received] == [
        ("GET", "/v1/responses", "1.1", True)
    ]
