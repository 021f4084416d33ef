"""memsearch in this process: the few calls that are used of it, and what is private to it (0.4.23, pymilvus 3.0.2).

Importing this imports memsearch, and pymilvus at the first database: `memory.conversations.engine` does so when a
client's memory is first used. tests/memory/conversations pins what is relied on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from memsearch.chunker import chunk_markdown, compute_chunk_id  # type: ignore[import-untyped]  # it has no types
from memsearch.core import MemSearch  # type: ignore[import-untyped]
from memsearch.store import MilvusStore  # type: ignore[import-untyped]

from memory.conversations.embedding import Builtin, Provider, Vectors, unit
from memory.conversations.settings_file import Chunking

COLLECTION = "memsearch_chunks"
MOST_READ = 1000
"""Vectors that are read at once."""
GRPC_OPTIONS = {"grpc.enable_http_proxy": 0, "grpc.keepalive_time_ms": 2**31 - 1}
"""For the server in this process. gRPC would reach it through $http_proxy, which may be ourselves; and pymilvus would ask
it every 10 s whether it is there, which it takes for an attack after some minutes (`too_many_pings` in the terminal).
The greatest number means never.
"""


def quiet() -> None:
    """Before a database is opened: its server logs an ERROR for each call that asks whether something exists, which
    ends mitmproxy's start, and the libraries' logs name files and hold text.
    """
    for name in ("grpc._server", "memsearch", "milvus_lite", "pymilvus"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is: a database of its own in a folder, or a collection on a server."""

    uri: str
    token: str | None = None
    collection: str = COLLECTION

    @property
    def is_local(self) -> bool:
        return not self.uri.startswith(("http", "tcp"))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as memsearch indexes it. Its id depends on its file, its lines, its content and the model."""

    id: str
    source: str
    heading: str
    content: str
    start_line: int


class _Store(MilvusStore):  # type: ignore[misc]
    def _connect(self, *, create_local_storage: bool) -> None:
        if self._is_lite:
            self._connect_kwargs["grpc_options"] = GRPC_OPTIONS
        super()._connect(create_local_storage=create_local_storage)


class ChunkStore(MemSearch):  # type: ignore[misc]
    """memsearch with a provider of ours. Its own constructor only takes names, and `openai` for none."""

    def __init__(self, place: Place, provider: Provider, chunking: Chunking, runner: asyncio.Runner) -> None:
        self._paths: list[str] = []
        self._max_chunk_size = chunking.max_chunk_size
        self._overlap_lines = chunking.overlap_lines
        self._ignore_files: list[str] = []
        self._exclude: list[str] = []
        self._reranker_model = ""
        self._embedder: Provider = provider
        self._store: Any = _Store(
            uri=place.uri, token=place.token, collection=place.collection, dimension=provider.dimension
        )
        self._runner = runner
        self._collection = place.collection
        self._is_filled = False
        """It is known that there is a chunk."""

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def embeds_words(self) -> bool:
        """The provider knows words, not sentences."""
        return isinstance(self._embedder, Builtin)

    @property
    def is_empty(self) -> bool:
        """Nothing has ever been indexed, or nothing is left: asking for rows would fail."""
        if not self._is_filled:
            self._is_filled = self._store._collection_exists and not self._store._collection_is_empty()  # noqa: SLF001
        return not self._is_filled

    def add(self, file: Path) -> int:
        """Index a file as it is now; how many of its chunks were new."""
        self._is_filled = False
        added: int = self._runner.run(self.index_file(file))
        return added

    def remove(self, source: str) -> None:
        self._is_filled = False
        if self._store._collection_exists:  # noqa: SLF001
            self._store.delete_by_source(source)

    def sources(self) -> set[str]:
        """The files that have chunks."""
        found: set[str] = self._store.indexed_sources() if self._store._collection_exists else set()  # noqa: SLF001
        return found

    def chunks_of(self, source: str) -> int:
        """How many chunks a file has in the index."""
        return len(self._store.hashes_by_source(source)) if self._store._collection_exists else 0  # noqa: SLF001

    def count(self) -> int:
        """How many chunks there are."""
        if not self._store._collection_exists:  # noqa: SLF001
            return 0
        rows = self._client.query(self._collection, filter="", output_fields=["count(*)"])
        return int(rows[0]["count(*)"])

    def flush(self) -> None:
        """Write what is new to disk: what is not is searched twenty times as slowly."""
        if self._store._collection_exists:  # noqa: SLF001
            self._client.flush(self._collection)

    def vector(self, text: str) -> Vectors:
        if isinstance(self._embedder, Builtin):
            (known,) = self._embedder.vectors([text])
            return np.asarray(known, np.float32)
        (vector,) = self._runner.run(self._embedder.embed([text]))
        return np.array(vector, np.float32)

    def vectors(self, chunks: Sequence[Chunk]) -> Vectors:
        """A row of length 1 for each, of zeros where the index does not have it. To read it costs less than to embed it
        again, also with the weights in this process.
        """
        rows = np.zeros((len(chunks), self.dimension), np.float32)
        place = {chunk.id: row for row, chunk in enumerate(chunks)}
        for start in range(0, 0 if self.is_empty else len(chunks), MOST_READ):
            ids = [chunk.id for chunk in chunks[start : start + MOST_READ]]
            for found in self._client.query(self._collection, ids=ids, output_fields=["embedding"]):
                rows[place[found["chunk_hash"]]] = found["embedding"]
        return unit(rows)

    def chunked(self, source: str, content: str) -> list[Chunk]:
        """The chunks of a file, in order."""
        model = self._embedder.model_name
        return [
            Chunk(
                compute_chunk_id(each.source, each.start_line, each.end_line, each.content_hash, model),
                each.source,
                each.heading,
                each.content,
                each.start_line,
            )
            for each in chunk_markdown(
                content, source=source, max_chunk_size=self._max_chunk_size, overlap_lines=self._overlap_lines
            )
        ]

    @property
    def _client(self) -> Any:
        return self._store._client  # noqa: SLF001


def dropped(place: Place) -> None:
    """Remove a collection of a server, whatever vectors it holds."""
    store = _Store(uri=place.uri, token=place.token, collection=place.collection, dimension=None)
    try:
        store.drop()
    finally:
        store.close()


def let_go(place: Place) -> None:
    """Of a database in a folder that could not be opened: its server runs on in this process, and holds its lock."""
    from milvus_lite.server_manager import server_manager_instance  # type: ignore[import-untyped]  # noqa: PLC0415

    server_manager_instance.release_server(place.uri)
