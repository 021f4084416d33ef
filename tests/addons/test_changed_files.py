"""The file that the dashboard changes: it may change meanwhile, be broken, be another's, or not be there yet."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from addons import config_writing
from addons.config import load_config
from addons.config_writing import ConfigFile, NotWrittenError
from tests.addons.changing import (
    TEXT,
    Change,
    at_home,
    chmod,
    is_link,
    link,
    remove,
    source,
    text_of,
    write,
    written,
)
from web.settings import NotChangedError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


async def test_a_file_that_changed_meanwhile(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change(file)
    given = await change.settings.sources()
    write(file, TEXT.replace("# mine", "# mine too"))
    assert (await change.refused([], given["version"]))[0] == "changed"

    def meanwhile(path: Path, data: bytes) -> None:
        path.write_bytes(data)
        write(file, "state: null\n")

    monkeypatch.setattr(config_writing, "_write", meanwhile)
    with pytest.raises(NotChangedError, match="was changed meanwhile") as raised:
        await change.settings.change_sources([], None)
    assert raised.value.cause == "changed"
    assert text_of(file) == "state: null\n"
    assert [one.name for one in file.parent.iterdir()] == ["mitm.yaml"]


async def test_two_changes_at_once(file: Path) -> None:
    change = Change(file)
    given = await change.settings.sources()
    first, second = given["sources"]
    answers = await asyncio.gather(
        change.settings.change_sources([first], given["version"]),
        change.settings.change_sources([second], given["version"]),
        return_exceptions=True,
    )
    assert isinstance(answers[0], dict)
    assert isinstance(answers[1], NotChangedError)
    assert (answers[1].cause, [one["name"] for one in await change.sources()]) == ("changed", ["first"])

    await asyncio.gather(
        change.settings.change_sources([first, source("a", "claude_code")], None),
        change.settings.change_sources([source("b", "claude_code")], None),
    )
    assert [one["name"] for one in await change.sources()] == ["b"], "one after the other, each whole"
    assert load_config(file).memory.sources[0].name == "b"


async def test_a_file_that_is_missing_broken_or_read_only(file: Path) -> None:
    change = Change(file)
    given = await change.sources()
    chmod(file, 0o444)
    assert await change.refused(given[:1]) == (
        "unwritable",
        f"{file} is read-only: make it writable, or edit it by hand",
    )
    chmod(file, 0o644)
    write(file, "memory: [\n")
    cause, message = await change.refused(given)
    assert (cause, message.partition(".")[0]) == ("unwritable", f"Mend {file.parent}/mitm")
    write(file, b"\xff")
    assert (await change.refused(given))[1] == f"{file} is not UTF-8: save it as UTF-8"
    remove(file)
    assert (await change.refused(given))[1] == (
        f"{file} cannot be read (No such file or directory): put it back, or restart mitmemory"
    )
    with pytest.raises(NotChangedError):
        await change.settings.sources()


async def test_a_folder_that_may_not_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(path: Path, _: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(config_writing, "_write", no)
    cause, message = await Change(file).refused([])
    assert (cause, message.endswith("cannot be written (Permission denied)")) == ("unwritable", True)


async def test_mode_link_and_byte_order_mark_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    link(file, real)
    change = Change(file)
    given = await change.sources()
    await change.settings.change_sources([source(**given[0] | {"path": "first"})], None)
    assert is_link(file)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    kept = TEXT.replace("    - {name: second, path: ~/second, enabled: no}\n", "").replace("\n", "\r\n")
    assert real.read_bytes() == b"\xef\xbb\xbf" + kept.encode()


@pytest.mark.parametrize(
    "text",
    [
        "proxy: {mitmproxy: {ignored: &out [x]}}\nmemory:\n  sources:\n    - {name: a, path: a, exclude: *out}\n",
        "memory:\n  sources: &all\n    - {name: a, path: a, exclude: &out [x]}\nproxy: {mitmproxy: {ignored: *out}}\n",
        "memory:\n  sources: [{name: a, path: a, exclude: &out [x]}]\nproxy: {mitmproxy: {ignored: *out}}\n",
    ],
)
async def test_a_list_that_hangs_on_others_is_changed_only_alone(file: Path, text: str) -> None:
    write(file, text)
    change = Change(file)
    [first] = await change.sources()
    await change.settings.change_sources([first], None)
    assert text_of(file) == text
    change = Change(file)
    answers: list[Any] = await asyncio.gather(
        change.settings.change_sources([first | {"enabled": False}], None), return_exceptions=True
    )
    answer = answers[0]
    if isinstance(answer, NotChangedError):
        said = "cannot be changed from here without changing more: edit it by hand"
        assert (answer.cause, str(answer).endswith(said), text_of(file)) == ("unwritable", True, text)
    config = load_config(file)
    assert config.memory.sources[0].enabled is isinstance(answer, NotChangedError)
    assert config.proxy.mitmproxy == {"ignored": ["x"]}
    assert config.memory.sources[0].exclude == ("x",)


async def test_the_default_of_a_package_is_copied_into_the_state_directory(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "addons"
    package.mkdir()
    shipped = package / "mitm.yaml"
    shipped.write_text("# shipped\nmemory:\n  sources: []   # none yet\n", "utf-8")
    monkeypatch.setattr(config_writing, "shipped_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "find_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "__file__", str(package / "config_writing.py"))
    change = Change(shipped)
    assert (await change.settings.sources())["file"] == str(home / ".mitmemory" / "mitm.yaml")

    answer = await change.settings.change_sources([source("claude-code", "claude_code")], None)
    made = home / ".mitmemory" / "mitm.yaml"
    assert text_of(made) == (
        "# shipped\nmemory:\n  sources:      # none yet\n    - {name: claude-code, type: claude_code}\n"
    )
    assert (stat.S_IMODE(made.stat().st_mode), stat.S_IMODE(made.parent.stat().st_mode)) == (0o600, 0o700)
    assert text_of(shipped).endswith("sources: []   # none yet\n")
    assert (change.taken_over, answer["file"]) == ([made], str(made))
    await change.settings.change_sources([], None)
    assert load_config(made).memory.sources == ()
    assert text_of(shipped).startswith("# shipped\nmemory:\n  sources: []"), "the made one is changed from then on"


async def test_a_file_that_somebody_made_there_meanwhile_stays(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "addons" / "mitm.yaml"
    shipped.parent.mkdir()
    shipped.write_text("memory: {}\n", "utf-8")
    monkeypatch.setattr(config_writing, "shipped_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "__file__", str(shipped.parent / "config_writing.py"))
    made = home / ".mitmemory" / "mitm.yaml"
    made.parent.mkdir(parents=True)
    made.write_text("mode: annotate\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotChangedError, match="is there now: restart mitmemory to use it"):
        await Change(shipped).settings.change_sources([source("claude-code", "claude_code")], None)
    assert text_of(made) == "mode: annotate\n"


def test_owner_and_group_stay(file: Path) -> None:
    if not hasattr(os, "chown") or os.geteuid() != 0:
        pytest.skip("only the system's administrator may give files away")
    os.chown(file, 12345, 23456)
    config_file = ConfigFile(file)
    before = config_file.read()
    config_file.replace(before, config_file.edit(before, ("memory", "sources"), []))
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_what_was_asked_of_another_file_is_not_written(file: Path) -> None:
    config_file = ConfigFile(file)
    before = config_file.read()
    write(file, "state: null\n")
    with pytest.raises(NotWrittenError) as raised:
        config_file.replace(before, config_file.edit(before, ("memory", "sources"), []))
    assert raised.value.reason == "changed"
