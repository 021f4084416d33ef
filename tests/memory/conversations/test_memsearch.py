"""What memsearch, Milvus Lite and wordllama really do, where we rely on it or guard against it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from memsearch.config import resolve_config
from memsearch.core import MemSearch
from memsearch.store import CollectionNotFoundError

from memory.conversations.chunk_store import ChunkStore, Place, quiet
from memory.conversations.embedding import Builtin
from memory.conversations.settings_file import Chunking
from tests.memory.conversations.written import CAKE, KEY, TAP, write


@pytest.fixture(scope="module")
def builtin() -> Builtin:
    return Builtin()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    quiet()
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def chunk_store(tmp_path: Path, builtin: Builtin, runner: asyncio.Runner) -> Iterator[ChunkStore]:
    chunk_store = ChunkStore(Place(str(tmp_path / "milvus.db")), builtin, Chunking(), runner)
    yield chunk_store
    chunk_store.close()


def test_project_file_chooses_no_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".memsearch.toml").write_text(
        '[embedding]\nprovider = "ollama"\n[milvus]\nuri = "own.db"\n[chunking]\nmax_chunk_size = 700\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    config = resolve_config()
    assert config.embedding.provider == "openai"
    assert config.milvus.uri != "own.db"
    assert config.chunking.max_chunk_size == 700


def test_our_constructor_sets_what_memsearchs_sets(chunk_store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memsearch.core.get_provider", lambda *_, **__: Builtin())
    theirs = MemSearch(milvus_uri="nowhere/milvus.db")
    ours = vars(chunk_store).keys() - {"_runner", "_collection", "_is_filled"}
    assert vars(theirs).keys() == ours


def test_search_before_anything_is_indexed_raises(chunk_store: ChunkStore, runner: asyncio.Runner) -> None:
    with pytest.raises(CollectionNotFoundError):
        runner.run(chunk_store.search("key"))
    assert chunk_store.is_empty
    assert (chunk_store.sources(), chunk_store.count()) == (set(), 0)


def test_score_of_memsearch_is_a_rank_and_no_relevance(
    chunk_store: ChunkStore, runner: asyncio.Runner, tmp_path: Path
) -> None:
    chunk_store.add(write(tmp_path, [KEY, TAP, CAKE]))
    nothing_in_common = runner.run(chunk_store.search("zebra quantum", top_k=5))
    assert nothing_in_common[0]["score"] == pytest.approx(0.5)  # first of the vectors, and of nothing else


def test_vectors_that_are_read_make_the_cosines_of_the_index(
    chunk_store: ChunkStore, builtin: Builtin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, [KEY, TAP], [CAKE])
    chunks = chunk_store.chunked(str(path), path.read_text())
    assert not chunk_store.vectors(chunks).any()
    chunk_store.add(path)
    monkeypatch.setattr("memory.conversations.chunk_store.MOST_READ", 3)
    rows = chunk_store.vectors(chunks)
    assert rows.shape == (7, 256)
    assert not chunk_store.vectors([replace(chunks[0], id="none")]).any()
    vector = builtin.vectors(["Where is the key?"])[0]
    (found,) = chunk_store._client.search(
        chunk_store._collection, data=[vector.tolist()], anns_field="embedding", limit=99, output_fields=["start_line"]
    )
    cosines = dict(zip((chunk.id for chunk in chunks), (rows @ vector).tolist(), strict=True))
    assert {hit["chunk_hash"]: hit["distance"] for hit in found} == pytest.approx(cosines, abs=1e-6)


def test_chunks_that_we_reckon_are_those_in_the_index(chunk_store: ChunkStore, tmp_path: Path) -> None:
    path = write(tmp_path, [KEY, TAP], [CAKE])
    chunk_store.add(path)
    chunks = [chunk.id for chunk in chunk_store.chunked(str(path), path.read_text())]
    assert chunk_store._store.hashes_by_source(str(path)) == set(chunks)
    assert len(chunks) == chunk_store.count() == 7  # the frontmatter, and three turns of two parts


def test_closing_one_of_two_handles_breaks_the_other(
    chunk_store: ChunkStore, builtin: Builtin, runner: asyncio.Runner, tmp_path: Path
) -> None:
    chunk_store.add(write(tmp_path, [KEY]))
    second = ChunkStore(Place(str(tmp_path / "milvus.db")), builtin, Chunking(), runner)
    assert second.count() == chunk_store.count()
    second.close()
    from pymilvus.exceptions import MilvusException

    with pytest.raises((MilvusException, ValueError)):
        chunk_store._client.query("memsearch_chunks", filter="", output_fields=["count(*)"], timeout=0.5)


def test_a_proxy_of_the_environment_is_not_asked_for_the_database(
    tmp_path: Path, builtin: Builtin, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    chunk_store = ChunkStore(Place(str(tmp_path / "milvus.db")), builtin, Chunking(), runner)
    chunk_store.add(write(tmp_path, [KEY]))
    assert chunk_store.count() == 3
    chunk_store.close()


def test_the_database_is_not_asked_again_and_again_whether_it_is_there(
    tmp_path: Path, builtin: Builtin, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[dict[str, Any]] = []
    make_channel = grpc.insecure_channel

    def noted(target: str, options: Any = None, **more: Any) -> Any:
        opened.append(dict(options))
        return make_channel(target, options=options, **more)

    monkeypatch.setattr("grpc.insecure_channel", noted)
    chunk_store = ChunkStore(Place(str(tmp_path / "milvus.db")), builtin, Chunking(), runner)
    chunk_store.add(write(tmp_path, [KEY]))
    chunk_store.close()
    assert {one["grpc.keepalive_time_ms"] for one in opened} == {2**31 - 1}
    assert {one["grpc.enable_http_proxy"] for one in opened} == {0}


def test_the_database_logs_an_error_that_is_kept_quiet(tmp_path: Path) -> None:
    for name in ("grpc._server", "memsearch", "milvus_lite", "pymilvus"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    quiet()
    assert not logging.getLogger("grpc._server").isEnabledFor(logging.ERROR)
    assert not logging.getLogger("milvus_lite.server_manager").isEnabledFor(logging.ERROR)


def test_wordllamas_own_loader_finds_no_tokenizer_and_ours_does_without_importing_it(tmp_path: Path) -> None:
    program = """
import sys
from memory.conversations.embedding import Builtin
vectors = Builtin().vectors(["a tap drips", "the faucet leaks", "parliament"])
assert "wordllama" not in sys.modules
print(vectors.shape, bool(vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2))
from wordllama import WordLlama
try:
    WordLlama.load(disable_download=True)
except FileNotFoundError:
    print("not found")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(3, 256) True", "not found"]
