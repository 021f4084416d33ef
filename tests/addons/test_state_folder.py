"""The state directory is its owner's alone, whichever command makes it first."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from mitmproxy.certs import CertStore

from addons import cli
from addons.certificates import CA, CA_CERTIFICATE, ensure_certificates, write_bundle
from addons.config import Config
from addons.makers import StartError, make_client_key, make_tokens
from addons.own_key import load_or_make_key
from addons.presence import hold_start
from addons.state_folder import unusable
from memory.sources.cache import write_cache
from web.access import load_or_make_tokens


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda state: ensure_certificates(state, key_bits=1024), id="env"),
        pytest.param(lambda state: hold_start(state, seconds=5).close(), id="with"),
        pytest.param(lambda state: write_cache(state / "notes" / "vault.json", b"key", {}), id="map"),
        pytest.param(load_or_make_tokens, id="tokens"),
    ],
)
def test_nobody_else_looks_into_it(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    state = tmp_path / "above" / "state"
    make(state)
    folders = [state, *(path for path in state.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


# ---- a disk that is full


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files can be made, and nothing can be written to them."""
    real = os.fdopen

    def fdopen(descriptor: int, *args: Any, **options: Any) -> Any:
        stream = real(descriptor, *args, **options)

        class Full:
            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

            def write(self, _: object) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return Full()

    monkeypatch.setattr(os, "fdopen", fdopen)


@pytest.mark.usefixtures("full")
def test_what_was_begun_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        load_or_make_key(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        load_or_make_tokens(tmp_path)
    (tmp_path / CA_CERTIFICATE).write_text("a certificate")
    with pytest.raises(OSError, match="No space left"):
        write_bundle(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [CA_CERTIFICATE]


def test_half_an_authority_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, *_: object) -> None:
        (path / CA).write_bytes(b"")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(CertStore, "create_store", half)
    with pytest.raises(OSError, match="No space left"):
        ensure_certificates(tmp_path)
    assert list((tmp_path / "mitmproxy").iterdir()) == []


@pytest.mark.usefixtures("full")
def test_a_full_disk_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    file = tmp_path / "mitm.yaml"
    file.write_text(yaml.safe_dump({"state": str(state)}))
    said = f"{state} cannot be used (No space left on device): make room there, or set state to another directory"
    assert cli.main(["hmac", "--config", str(file)]) == 1
    assert capsys.readouterr() == ("", f"mitmemory: {said}\n")
    for make in (make_tokens, make_client_key):
        with pytest.raises(StartError) as caught:
            make(Config(state=state))
        assert str(caught.value) == said


def test_which_file_it_is_and_what_to_do(tmp_path: Path) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "client-key")
    assert unusable(denied, tmp_path) == (
        "client-key cannot be used (Permission denied): mend that, or set state to another directory"
    )
