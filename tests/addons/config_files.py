"""Reading a mitm.yaml that a test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.config import Config, ConfigError, load_config

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "mitm.yaml"


def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an account of its own, beside the one that the test is in."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.delenv("MITMEMORY_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def load(text: str | bytes, folder: Path = Path()) -> Config:
    file = folder / "mitm.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file)


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == "\n".join(str(fault) for fault in raised.value.faults)
    return [str(fault) for fault in raised.value.faults]
