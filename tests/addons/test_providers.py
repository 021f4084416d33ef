"""Which hosts are a provider's, and whether what is sent there stays here."""

from __future__ import annotations

import ipaddress
import re

import pytest

from addons.config_values import ConnectTo
from addons.providers import (
    BUILTIN,
    HostPattern,
    Provider,
    ProviderConfig,
    ProviderTable,
    parse_host,
    place_of,
    runs_in_makers_cloud,
)

TABLE = ProviderTable()


def addresses(text: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return [ipaddress.ip_address(one) for one in text.split()]


# The table


def test_the_builtin_names() -> None:
    assert [provider.name for provider in BUILTIN if provider.cloud] == [
        "anthropic", "openai", "google", "azure", "bedrock", "openrouter", "mistral", "groq", "xai", "deepseek", "together",
        "fireworks", "cohere", "perplexity", "huggingface", "github-copilot", "cerebras", "moonshot", "zai", "minimax",
        "ollama-cloud",
    ]  # fmt: skip
    assert [provider.name for provider in BUILTIN if not provider.cloud] == ["ollama", "lmstudio", "vllm", "jan"]
    assert all(provider.builtin and provider.local is None for provider in BUILTIN)


def test_no_host_is_in_the_table_twice() -> None:
    hosts = [host for provider in BUILTIN for host in provider.hosts]
    assert len(hosts) == len(set(hosts))


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("api.anthropic.com", 443, "anthropic"),
        ("API.Anthropic.COM", 443, "anthropic"),
        ("api.anthropic.com.", 443, "anthropic"),
        ("api.anthropic.com", 80, None),
        ("api.anthropic.com", 8443, None),
        ("api.anthropic.com.evil.example", 443, None),
        ("evil-api.anthropic.com", 443, None),
        ("apixanthropic.com", 443, None),
        ("anthropic.com", 443, None),
        ("api.openai.com", 443, "openai"),
        ("eu.api.openai.com", 443, "openai"),
        ("chatgpt.com", 443, "openai"),
        ("www.chatgpt.com", 443, None),
        ("generativelanguage.googleapis.com", 443, "google"),
        ("aiplatform.googleapis.com", 443, "google"),
        ("us-central1-aiplatform.googleapis.com", 443, "google"),
        ("aiplatform.eu.rep.googleapis.com", 443, "google"),
        ("cloudcode-pa.googleapis.com", 443, "google"),
        ("storage.googleapis.com", 443, None),
        ("my-team.openai.azure.com", 443, "azure"),
        ("my-team.services.ai.azure.com", 443, "azure"),
        ("my-team.cognitiveservices.azure.com", 443, "azure"),
        ("a.b.openai.azure.com", 443, None),
        ("bedrock-runtime.eu-west-1.amazonaws.com", 443, "bedrock"),
        ("bedrock-runtime-fips.us-east-1.amazonaws.com", 443, "bedrock"),
        ("s3.eu-west-1.amazonaws.com", 443, None),
        ("openrouter.ai", 443, "openrouter"),
        ("api.mistral.ai", 443, "mistral"),
        ("api.groq.com", 443, "groq"),
        ("api.x.ai", 443, "xai"),
        ("api.deepseek.com", 443, "deepseek"),
        ("api.together.xyz", 443, "together"),
        ("api.fireworks.ai", 443, "fireworks"),
        ("api.cohere.com", 443, "cohere"),
        ("api.perplexity.ai", 443, "perplexity"),
        ("router.huggingface.co", 443, "huggingface"),
        ("huggingface.co", 443, None),
        ("api.githubcopilot.com", 443, "github-copilot"),
        ("api.individual.githubcopilot.com", 443, "github-copilot"),
        ("github.com", 443, None),
        ("api.cerebras.ai", 443, "cerebras"),
        ("api.moonshot.ai", 443, "moonshot"),
        ("api.z.ai", 443, "zai"),
        ("api.minimax.io", 443, "minimax"),
        ("ollama.com", 443, "ollama-cloud"),
        ("localhost", 11434, "ollama"),
        ("127.0.0.1", 11434, "ollama"),
        ("::1", 11434, "ollama"),
        ("[::1]", 11434, "ollama"),
        ("0:0:0:0:0:0:0:1", 11434, "ollama"),
        ("localhost", 1234, "lmstudio"),
        ("127.0.0.1", 8000, "vllm"),
        ("localhost", 1337, "jan"),
        ("localhost", 8090, None),
        ("192.168.1.5", 11434, None),
        ("localhost.evil.example", 11434, None),
        ("", 443, None),
        ("api.anthropic.com\n", 443, None),
        ("api.anthropic.com:443\n", 443, None),
    ],
)
def test_find(host: str, port: int, name: str | None) -> None:
    found = TABLE.find(host, port)
    assert (found.name if found else None) == name


def test_find_and_allow_hosts_agree_and_are_anchored() -> None:
    allowed = TABLE.allow_hosts()
    assert r"^api\.anthropic\.com\.?:443$" in allowed
    assert r"^\[?::1\]?:11434$" in allowed
    assert r"^[^.:]*\-aiplatform\.googleapis\.com\.?:443$" in allowed
    assert all(expression.startswith("^") and expression.endswith("$") for expression in allowed)
    assert len(allowed) == len(set(allowed)) == sum(len(provider.hosts) for provider in BUILTIN)
    for where in ("api.anthropic.com:443", "::1:11434", "[::1]:11434", "LOCALHOST:1337"):
        assert any(re.search(expression, where, re.IGNORECASE) for expression in allowed)
    for where in (
        "evil-api.anthropic.com:443",
        "api.anthropic.com.evil.example:443",
        "api.anthropic.com:4430",
        "::11:11434",
    ):
        assert not any(re.search(expression, where, re.IGNORECASE) for expression in allowed)


def test_configured_providers_come_first_and_change_the_builtin_ones() -> None:
    table = ProviderTable(
        [
            ProviderConfig("lab", ("llm.example.com", "10.0.0.*:8000"), local=False, protocol="openai-chat"),
            ProviderConfig("Anthropic", connect_to=ConnectTo("http", "127.0.0.1", 9911)),
            ProviderConfig("openai", hosts=("gateway.example.com",), local=True),
            ProviderConfig("jan", hosts=()),
            ProviderConfig("mine", ("api.mistral.ai",)),
        ]
    )
    assert table.find("llm.example.com", 443) == Provider(
        "lab", ("llm.example.com", "10.0.0.*:8000"), local=False, protocol="openai-chat"
    )
    assert table.find("10.0.0.7", 8000) == table.find("llm.example.com", 443)
    assert table.find("api.anthropic.com", 443) == Provider(
        "anthropic",
        ("api.anthropic.com",),
        cloud=True,
        connect_to=ConnectTo("http", "127.0.0.1", 9911),
        builtin=True,
    )
    assert table.find("api.openai.com", 443) is None
    assert table.find("gateway.example.com", 443) == Provider(
        "openai", ("gateway.example.com",), cloud=True, local=True, builtin=True
    )
    assert table.find("localhost", 1337) is None
    assert table.find("api.mistral.ai", 443) == Provider("mine", ("api.mistral.ai",))
    assert table.allow_hosts().count(r"^api\.mistral\.ai\.?:443$") == 1
    assert len(table.providers) == len(BUILTIN) + 2
    assert table.named("lab") == table.find("llm.example.com", 443)
    assert table.named("none") is None


# Host patterns


@pytest.mark.parametrize(
    ("text", "pattern", "matches", "others"),
    [
        ("API.example.com", HostPattern("api.example.com", 443), ["api.example.com:443"], ["api.example.com:80", "apixexample.com:443"]),
        ("api.example.com.:8443", HostPattern("api.example.com", 8443), ["api.example.com:8443", "api.example.com.:8443"], []),
        ("*.example.com", HostPattern("*.example.com", 443), ["a.example.com:443"], ["a.b.example.com:443", "example.com:443"]),
        ("gpu?.lan:80", HostPattern("gpu?.lan", 80), ["gpu1.lan:80"], ["gpu.lan:80", "gpu10.lan:80", "gpu..lan:80"]),
        ("10.0.*.1:1", HostPattern("10.0.*.1", 1), ["10.0.255.1:1"], ["10.0.1:1", "10.0.0.0.1:1"]),
        ("[0::1]:80", HostPattern("::1", 80), ["::1:80", "[::1]:80"], ["::11:80", "a::1:80"]),
        ("[fd00::5]", HostPattern("fd00::5", 443), ["fd00::5:443"], []),
        (" my_host:65535 ", HostPattern("my_host", 65535), ["MY_HOST:65535"], []),
    ],
)  # fmt: skip
def test_host(text: str, pattern: HostPattern, matches: list[str], others: list[str]) -> None:
    assert parse_host(text) == pattern
    assert [where for where in [*matches, *others] if re.search(pattern.expression, where, re.IGNORECASE)] == matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no host name"),
        (".", "is no host name"),
        ("a..b", "is no host name"),
        ("a b.example", "is no host name"),
        ("-a.example", "is no host name"),
        ("münchen.example", "is no host name"),
        ("[a-z].example", "has no IPv6 address in its brackets"),
        ("(a|b).example", "is no host name"),
        ("*", "would match every host"),
        ("*.*:443", "would match every host"),
        ("https://a.example", "is more than a host: no scheme and no path belong here"),
        ("a.example/v1", "is more than a host: no scheme and no path belong here"),
        ("a.example:", "has no port from 1 to 65535 after the host"),
        ("a.example:0", "has no port from 1 to 65535 after the host"),
        ("a.example:65536", "has no port from 1 to 65535 after the host"),
        ("a.example:https", "has no port from 1 to 65535 after the host"),
        ("::1", "is no host name"),
        ("[::1", "has a bracket that is not closed"),
        ("[::1]80", "has no port from 1 to 65535 after the host"),
        ("[127.0.0.1]:80", "has no IPv6 address in its brackets"),
    ],
)
def test_no_host(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_host(text)
    assert str(raised.value) == message


# Local or cloud


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "127.255.255.254", "::1", "127.0.0.1 ::1",
        "10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1", "192.168.255.255",
        "fc00::1", "fdff::1", "169.254.1.1", "fe80::1", "fe80::1%3", "febf::1",
        "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.0.1",
        "10.0.0.1 192.168.1.1 fe80::1",
    ],
)  # fmt: skip
def test_local_addresses(text: str) -> None:
    assert place_of(addresses(text)) == "local"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "126.255.255.255", "128.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
        "169.253.255.255", "169.255.0.0", "100.64.0.1", "8.8.8.8", "0.0.0.0", "255.255.255.255", "224.0.0.1", "192.0.2.1",
        "198.18.0.0", "198.18.0.1", "198.19.255.255",
        "::", "::2", "2606:4700::1111", "fbff::1", "fe00::1", "fec0::1", "ff02::1", "2001:db8::1",
        "::ffff:8.8.8.8", "::ffff:198.18.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
        "127.0.0.1 8.8.8.8", "10.0.0.1 2606:4700::1111", "192.168.1.1 198.18.0.1",
    ],
)  # fmt: skip
def test_cloud_addresses(text: str) -> None:
    assert place_of(addresses(text)) == "cloud"


CLOUD = Provider("anthropic", ("api.anthropic.com",), cloud=True, builtin=True)
OLLAMA = Provider("ollama", ("localhost:11434",), builtin=True)
OWN = Provider("lab", ("llm.example.com",))


@pytest.mark.parametrize(
    ("provider", "local", "model", "where", "place"),
    [
        (CLOUD, None, "claude-sonnet-4", "203.0.113.10", "cloud"),
        (CLOUD, None, "claude-sonnet-4", "127.0.0.1", "cloud"),
        (CLOUD, None, "claude-sonnet-4", "", "cloud"),
        (CLOUD, True, "claude-sonnet-4", "127.0.0.1", "local"),
        (CLOUD, True, "claude-sonnet-4", "203.0.113.10", "local"),
        (CLOUD, False, "claude-sonnet-4", "127.0.0.1", "cloud"),
        (OLLAMA, None, "qwen3:8b", "127.0.0.1", "local"),
        (OLLAMA, None, "qwen3:8b", "192.168.1.5", "local"),
        (OLLAMA, None, "qwen3:8b", "8.8.8.8", "cloud"),
        (OLLAMA, False, "qwen3:8b", "127.0.0.1", "cloud"),
        (OLLAMA, None, "gpt-oss:120b-cloud", "127.0.0.1", "cloud"),
        (OLLAMA, None, "qwen3-coder:cloud", "127.0.0.1", "cloud"),
        (OLLAMA, None, "GLM-4.6:Cloud", "::1", "cloud"),
        (OLLAMA, None, "deepseek-cloud", "127.0.0.1", "cloud"),
        (OLLAMA, True, "gpt-oss:120b-cloud", "127.0.0.1", "cloud"),
        (OLLAMA, None, "cloud-writer:8b", "127.0.0.1", "local"),
        (OLLAMA, None, "soundcloud", "127.0.0.1", "local"),
        (OWN, None, "llama", "10.0.0.7", "local"),
        (OWN, None, "llama", "", "cloud"),
        (OWN, None, "llama", "10.0.0.7 8.8.8.8", "cloud"),
        (OWN, False, "llama", "10.0.0.7", "cloud"),
        (OWN, True, "llama", "8.8.8.8", "local"),
        (OWN, None, "gpt-oss:20b-cloud", "10.0.0.7", "cloud"),
        (OWN, True, "gpt-oss:20b-cloud", "10.0.0.7", "local"),
    ],
)
def test_place(provider: Provider, local: bool | None, model: str, where: str, place: str) -> None:
    provider = Provider(provider.name, provider.hosts, cloud=provider.cloud, local=local, builtin=provider.builtin)
    assert provider.place(model, addresses(where)) == place


def test_an_own_provider_that_speaks_ollama_is_one() -> None:
    provider = Provider("gpu", ("gpu.lan:11434",), local=True, protocol="ollama")
    assert provider.place("qwen3:8b", []) == "local"
    assert provider.place("qwen3:cloud", []) == "cloud"


def test_model_names_of_makers_clouds() -> None:
    names = ["a:cloud", "a:7b-cloud", "a-cloud", " a:cloud ", "a:cloudy", "cloud:7b", "a/cloud", ""]
    assert [name for name in names if runs_in_makers_cloud(name)] == ["a:cloud", "a:7b-cloud", "a-cloud", " a:cloud "]
