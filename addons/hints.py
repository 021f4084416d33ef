"""Hints: what the suite cannot see although it might, each with its mend (interception.md, "Which flows")."""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path

from mitmproxy import http, tls

from addons.program import with_program
from addons.providers import ProviderTable

MOST = 20
"""Hosts remembered of each kind; the oldest are forgotten first."""
LONGEST_HOST = 100

# Words in the names of hosts that serve models. A hint too many costs a line, so they may be broad.
_MODEL_HOST = re.compile(
    r"(?<![a-z])(?:llms?|openai|chatgpt|anthropic|claude|gemini|generativelanguage|mistral|deepseek|groq|ollama|inference|"
    r"bedrock|openrouter|perplexity|cohere|grok|qwen|moonshot|vllm|litellm|codex|copilot)(?![a-z])"
)


class Hints:
    """Notices clients that do not trust the suite's certificate, and hosts that look like model providers and are none."""

    def __init__(self, providers: ProviderTable, config: Path | None = None) -> None:
        """`config` is the file that commands have to name."""
        self._providers = providers
        self._config = config
        self._untrusted: OrderedDict[str, None] = OrderedDict()
        self._passed: OrderedDict[str, None] = OrderedDict()

    def http_connect(self, flow: http.HTTPFlow) -> None:
        host, port = flow.request.host.lower(), flow.request.port
        if self._providers.find(host, port) is None and _MODEL_HOST.search(host):
            _remember(self._passed, host)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        # A client that merely went away has not been heard of again, one that distrusts tries again and again: both
        # end a handshake, and only the host's next good one tells them apart.
        if host := _host(data):
            _remember(self._untrusted, host)

    def tls_established_client(self, data: tls.TlsData) -> None:
        self._untrusted.pop(_host(data), None)

    @property
    def untrusting(self) -> list[str]:
        """Hosts for which a client does not trust the certificate."""
        return list(self._untrusted)

    @property
    def passed_through(self) -> list[str]:
        """Hosts that look like model providers, and are none that is known."""
        return [host for host in self._passed if self._providers.find(host, 443) is None]

    @property
    def warnings(self) -> list[str]:
        mend = with_program(
            "start it with the settings that `mitmemory env` prints, or with `mitmemory with -- COMMAND`",
            self._config,
        )
        return [
            *(
                f"A client does not trust mitmemory's certificate for {host}, so nothing of it is seen or sent: {mend}"
                for host in self.untrusting
            ),
            *(
                f"{host} looks like a model provider and is passed through unseen: if it is one, name it under providers "
                "in mitm.yaml"
                for host in self.passed_through
            ),
        ]


def _host(data: tls.TlsData) -> str:
    address = data.context.server.address
    return (data.conn.sni or (str(address[0]) if address else ""))[:LONGEST_HOST]


def _remember(hosts: OrderedDict[str, None], host: str) -> None:
    hosts[host[:LONGEST_HOST]] = None
    if len(hosts) > MOST:
        hosts.popitem(last=False)
