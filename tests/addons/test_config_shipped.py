"""The mitm.yaml that is shipped, what stands for what is left out, and the description of both."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest
import yaml

from addons.config import (
    ActivityConfig,
    Address,
    Config,
    DashboardConfig,
    MemoryConfig,
    ProxyConfig,
    TokensConfig,
    load_config,
)
from tests.addons.config_files import ROOT, SHIPPED, at_home, faults

DOCUMENTATION = ROOT / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


def test_the_shipped_file_says_what_the_classes_default_to() -> None:
    assert load_config(SHIPPED) == Config()


def test_the_defaults() -> None:
    assert Config() == Config(
        mode="dispatch",
        proxy=ProxyConfig(
            listen=Address("127.0.0.1", 8080),
            inspector=Address("127.0.0.1", 8081),
            keep_flows=200,
            keep_bytes=104_857_600,
            max_body=67_108_864,
            mitmproxy={},
        ),
        memory=MemoryConfig(
            sources=(),
            track_sharing=True,
            quotes=True,
            mentions="careful",
            minimum_line_length=24,
            refresh_interval=60.0,
            max_notes_per_source=5000,
            max_note_bytes=1_048_576,
        ),
        providers=(),
        activity=ActivityConfig(keep=7_776_000.0, max_entries=1_000_000),
        dashboard=DashboardConfig(
            listen=Address("127.0.0.1", 8090), prefix="/", allow_process_settings=False, tokens=TokensConfig(None, None)
        ),
        state=Path.home() / ".mitmemory",
    )


def keys_of(cls: type, prefix: str = "") -> set[str]:
    """Every key path that the class mirrors: `memory.sources[].name`."""
    hints = typing.get_type_hints(cls)
    found: set[str] = set()
    for field in dataclasses.fields(cls):
        if cls is Config and field.name == "file":
            continue
        key = prefix + {"kind": "type"}.get(field.name, field.name)
        found.add(key)
        inner = typing.get_args(hints[field.name])[:1] or (hints[field.name],)
        if dataclasses.is_dataclass(inner[0]) and isinstance(inner[0], type):
            found |= keys_of(inner[0], key + ("[]." if typing.get_origin(hints[field.name]) is tuple else "."))
    return found


def shipped_values(node: yaml.Node, prefix: str = "") -> dict[str, str]:
    """Every key of the shipped file, with its value as it is written there ("" for a group of keys)."""
    text = SHIPPED.read_text()
    found: dict[str, str] = {}
    for key_node, value in node.value:
        key = prefix + key_node.value
        grouped = isinstance(value, yaml.MappingNode) and value.value
        found[key] = "" if grouped else text[value.start_mark.index : value.end_mark.index]
        if grouped:
            found |= shipped_values(value, f"{key}.")
    return found


def documented() -> dict[str, str]:
    """Every key of docs/configuration.md, with its default."""
    rows = [line.split("|") for line in DOCUMENTATION.read_text().splitlines() if line.startswith("| `")]
    return {key.strip(" `"): default.strip(" `") for _, key, _, default, *_ in rows}


def test_every_key_is_in_the_shipped_file() -> None:
    shipped = shipped_values(yaml.compose(SHIPPED.read_text(), Loader=yaml.SafeLoader))
    not_by_default = {key for key in keys_of(Config) if "[]" in key or key.startswith("conversations.milvus.")}
    assert set(shipped) == keys_of(Config) - not_by_default


def test_every_key_is_documented_with_its_default_and_each_documented_key_exists() -> None:
    shipped = shipped_values(yaml.compose(SHIPPED.read_text(), Loader=yaml.SafeLoader))
    described = documented()
    assert set(described) == set(shipped) | keys_of(Config)
    assert {key: described[key] for key in shipped} == shipped


def test_every_documented_option_of_mitmproxy_that_the_suite_owns_is_refused() -> None:
    row = next(line for line in DOCUMENTATION.read_text().splitlines() if line.startswith("| `proxy.mitmproxy`"))
    names = re.findall(r"`(\w+)`", row.partition("refused:")[2])
    assert len(names) == 11
    found = faults("proxy: {mitmproxy: {" + ", ".join(f"{name}: 1" for name in names) + "}}")
    assert [line.split(": ")[1] for line in found] == [f"proxy.mitmproxy.{name}" for name in names]
