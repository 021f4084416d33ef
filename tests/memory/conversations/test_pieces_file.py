"""What a search knows of each piece, kept beside the index: used while it is right, and never when it is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory.conversations import pieces_file
from memory.conversations.chunk_store import Chunk, ChunkStore, quiet
from memory.conversations.client_index import PIECES, ClientIndex, discard
from memory.conversations.embedding import Builtin, EmbeddingSettings, Vectors
from memory.conversations.pieces_file import PiecesFile
from memory.conversations.postings import Postings
from memory.conversations.ranking import Language
from memory.conversations.recall import Memory
from memory.conversations.searching import Question
from tests.memory.conversations.written import CAKE, KEY, TAP, write

PATIENCE = 60.0
BUILTIN = Builtin()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many chunks the index was asked for the vectors."""
    quiet()
    found: list[int] = []
    vectors = ChunkStore.vectors

    def counted(chunk_store: ChunkStore, chunks: Sequence[Chunk]) -> Vectors:
        found.append(len(chunks))
        return vectors(chunk_store, chunks)

    monkeypatch.setattr(ChunkStore, "vectors", counted)
    return found


def recalled(folder: Path, question: str = "spare key", language: str = "english") -> tuple[Memory, ...]:
    """By an index that is opened for it, and closed."""
    index = ClientIndex(folder, EmbeddingSettings(), language, BUILTIN)
    try:
        index.work(PATIENCE)
        return index.search(Question(question)).memories
    finally:
        index.close()


def test_the_next_opening_asks_for_no_vector_and_finds_the_same(tmp_path: Path, asked: list[int]) -> None:
    write(tmp_path, [KEY, TAP], [CAKE])
    first = recalled(tmp_path)
    assert "clock" in first[0].text
    file = tmp_path / ".memsearch" / PIECES
    assert (asked, stat.S_IMODE(file.stat().st_mode)) == ([7], 0o600)
    before = file.stat()
    assert recalled(tmp_path) == first
    assert recalled(tmp_path, "who repairs the faucet?")[0].text.startswith("User: The tap")
    assert asked == [7]
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_only_what_changed_is_asked_for(tmp_path: Path, asked: list[int]) -> None:
    path = write(tmp_path, [KEY])
    other = write(tmp_path, [TAP], session="2026-11-29T120000Z-bbbb")
    recalled(tmp_path)
    gone = path.read_text().replace("behind the clock in the hall", "below the third flower pot")
    path.write_text(gone)
    assert "flower pot" in recalled(tmp_path)[0].text
    assert asked == [6, 1]
    assert b"clock" not in (tmp_path / ".memsearch" / PIECES).read_bytes()
    other.unlink()
    assert not any("tap" in memory.text for memory in recalled(tmp_path, "tap kitchen drips"))
    assert b"kitchen" not in (tmp_path / ".memsearch" / PIECES).read_bytes()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "format"])
def test_a_file_that_is_not_right_is_not_used(
    tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    write(tmp_path, [KEY])
    first = recalled(tmp_path)
    file = tmp_path / ".memsearch" / PIECES
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[-200] ^= 1
    if damage == "format":
        monkeypatch.setattr(pieces_file, "FORMAT", 2)
    damaged: dict[str, bytes] = {"cut": bytes(content[:-1]), "empty": b"", "other": b"x" * 999}
    file.write_bytes(damaged.get(damage, bytes(content)))
    assert recalled(tmp_path) == first
    assert recalled(tmp_path) == first
    assert asked == [3, 3]


def test_another_language_and_another_index_make_their_own(tmp_path: Path, asked: list[int]) -> None:
    write(tmp_path, [KEY])
    recalled(tmp_path)
    recalled(tmp_path, language="german")
    kept = PiecesFile(tmp_path / ".memsearch" / PIECES, "another", tmp_path)
    assert kept.read(Language("german")) == {}
    assert asked == [3, 3]


def test_what_is_deleted_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, [KEY])
    recalled(tmp_path)
    file = tmp_path / ".memsearch" / PIECES
    index = ClientIndex(tmp_path, EmbeddingSettings(), "english", BUILTIN)
    index.work(PATIENCE)
    write(tmp_path, [TAP], session="2026-11-29T120000Z-bbbb")
    index.look()
    index.work(PATIENCE)
    index.search(Question("tap"))
    index.invalidate()  # made anew: closing it leaves nothing of what it knew
    assert not file.exists()
    index.close()
    assert not file.exists()
    recalled(tmp_path)
    assert file.exists()
    discard(tmp_path, None)
    assert not file.exists()


def test_what_the_index_has_no_vector_for_is_asked_for_again(
    tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [KEY])
    with monkeypatch.context() as patched:
        patched.setattr(
            ChunkStore, "vectors", lambda store, chunks: np.zeros((len(chunks), store.dimension), np.float32)
        )
        recalled(tmp_path)
    assert "clock" in recalled(tmp_path, "Where did I put the spare key?")[0].text
    assert asked == [3]


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="nothing refuses root")
def test_a_disk_that_refuses_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, [KEY])
    (tmp_path / ".memsearch").mkdir()
    (tmp_path / ".memsearch" / PIECES).mkdir()
    assert recalled(tmp_path)


def test_pieces_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, [KEY, TAP], [CAKE])
    index = ClientIndex(tmp_path, EmbeddingSettings(), "english", BUILTIN)
    index.work(PATIENCE)
    index.search(Question("key"))
    files = index._searching._pieces._files
    made, language = index._made, index._searching._language
    index.close()
    other = Language("english")
    other.numbers("words that it has already, and the clock")
    read = PiecesFile(tmp_path / ".memsearch" / PIECES, made, tmp_path).read(other)
    assert read.keys() == files.keys()
    for source, file in files.items():
        again = read[source]
        assert again.stamp == file.stamp
        assert np.array_equal(again.vectors, file.vectors)
        for piece, kept in zip(file.pieces, again.pieces, strict=True):
            assert sorted(other.spelled(kept.words)) == sorted(language.spelled(piece.words))
            assert replace(kept, words=piece.words) == piece


def test_rare_words_and_short_pieces_count_for_more() -> None:
    english = Language("english")
    said = ["garden tulips", "garden", "garden", "a tulip garden with walls stairs lamps benches", "snow"]
    postings = Postings([english.numbers(text) for text in said], english)
    found = postings.scores(english.numbers("tulip gardens"))
    assert found[0] > found[3] > found[1] == found[2] > 0
    assert found[4] == -np.inf
    assert Postings((), english).scores(english.numbers("tulip")).shape == (0,)
    assert (postings.scores(english.numbers("what")) == -np.inf).all()
