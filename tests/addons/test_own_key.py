"""The installation's own key: kept, for its owner alone, and the same for everybody who asks."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from addons.own_key import KEY_BYTES, KEY_FILE, load_or_make_key


def test_it_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    key = load_or_make_key(state)
    assert len(key) == KEY_BYTES
    assert load_or_make_key(state) == key
    assert [file.name for file in state.iterdir()] == [KEY_FILE]
    assert stat.S_IMODE((state / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert load_or_make_key(tmp_path / "other") != key


def test_whoever_could_read_it_no_longer_can(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    assert load_or_make_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_without_a_directory_it_holds_for_this_run(tmp_path: Path) -> None:
    assert load_or_make_key(None) != load_or_make_key(None)


def test_a_damaged_key_is_said_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(ValueError, match="client-key is damaged: delete it"):
        load_or_make_key(tmp_path)
    assert (tmp_path / KEY_FILE).read_bytes() == b"short"


def test_programs_that_make_it_at_once_get_the_same(tmp_path: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append(load_or_make_key(tmp_path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]
