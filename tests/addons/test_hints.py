"""What the suite cannot see is said, with the mend; and only that."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from addons.hints import MOST, Hints
from addons.program import with_program
from addons.providers import ProviderConfig, ProviderTable
from tests.harness import SuiteProcess


def connect_to(host: str, port: int = 443) -> http.HTTPFlow:
    flow = tflow.tflow()
    flow.request = http.Request.make("CONNECT", f"https://{host}:{port}/")
    return flow


def handshake(host: str | None, address: tuple[str, int] | None = None) -> Any:
    return SimpleNamespace(
        conn=SimpleNamespace(sni=host), context=SimpleNamespace(server=SimpleNamespace(address=address))
    )


@pytest.mark.parametrize(
    ("host", "noticed"),
    [
        ("llm.example.com", True),
        ("inference.example.net", True),
        ("eu.api.Mistral.example", True),
        ("my-openai.example", True),
        ("api.openai.com", False),  # a provider: seen
        ("files.example.com", False),
        ("claudette.example", False),
        ("fulfillment.example", False),
    ],
)
def test_a_host_that_looks_like_a_provider_and_is_none(host: str, noticed: bool) -> None:
    hints = Hints(ProviderTable(()))
    hints.http_connect(connect_to(host))
    expected = (
        f"{host.lower()} looks like a model provider and is passed through unseen: if it is one, name it under providers "
        "in mitm.yaml"
    )
    assert hints.warnings == ([expected] if noticed else [])
    assert hints.passed_through == ([host.lower()] if noticed else [])


def test_a_configured_host_is_none() -> None:
    hints = Hints(ProviderTable((ProviderConfig("lab", hosts=("llm.example.com",)),)))
    hints.http_connect(connect_to("llm.example.com"))
    assert hints.warnings == []


def test_a_client_that_distrusts_is_told_of_until_it_trusts() -> None:
    hints = Hints(ProviderTable(()))
    for _ in range(3):
        hints.tls_failed_client(handshake("api.openai.com"))
    hints.tls_failed_client(handshake(None, ("192.0.2.7", 443)))
    hints.tls_failed_client(handshake(None))
    assert [warning.partition(" for ")[2].partition(",")[0] for warning in hints.warnings] == [
        "api.openai.com",
        "192.0.2.7",
    ]
    hints.tls_established_client(handshake("api.openai.com"))
    hints.tls_established_client(handshake("never.example"))
    assert len(hints.warnings) == 1


def test_the_hints_are_bounded() -> None:
    hints = Hints(ProviderTable(()))
    for number in range(3 * MOST):
        hints.http_connect(connect_to(f"llm.{number}.{'.'.join(['x' * 60] * 3)}.example"))
        hints.http_connect(connect_to(f"llm{number}.llm.example"))
    assert len(hints.warnings) == MOST
    assert max(map(len, hints.warnings)) < 300


def test_a_real_client_that_distrusts(suite: SuiteProcess) -> None:
    url = "https://api.anthropic.com/v1/messages"
    command = ["curl", "-sS", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "-d", "{}"]
    refused = subprocess.run([*command, url], capture_output=True, check=False)
    assert refused.returncode == 60  # its word for a certificate that it does not trust
    expected = with_program(
        "A client does not trust mitmemory's certificate for api.anthropic.com, so nothing of it is seen or sent: start "
        "it with the settings that `mitmemory env` prints, or with `mitmemory with -- COMMAND`",
        suite.config,
    )
    assert suite.api("api/status").body["warnings"] == [expected]
    trusted = subprocess.run([*command, "--cacert", str(suite.ca), url], capture_output=True, check=False)
    assert trusted.returncode == 0
    assert suite.api("api/status").body["warnings"] == []
