"""memsearch as a library: the few calls that are used of it, and what is private to it (0.4.23, pymilvus 3.0.2).

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

from memsearch.chunker import chunk_markdown, compute_chunk_id  # type: ignore[import-untyped]  # it has no types
from memsearch.core import MemSearch  # type: ignore[import-untyped]
from memsearch.store import MilvusStore  # type: ignore[import-untyped]

from memory.conversations.embedding import Builtin, Provider
from memory.conversations.settings_file import Chunking

COLLECTION = "memsearch_chunks"
FIELDS = ["source", "heading", "content", "start_line"]
MOST_FILTERED = 16_384
"""What Milvus lets one search ask for."""


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
class Hit:
    """A chunk that was found. `cosine` is 0 where it was found by its words only."""

    id: str
    source: str
    heading: str
    content: str
    start_line: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as memsearch would index it."""

    id: str
    heading: str


class _Store(MilvusStore):  # type: ignore[misc]
    def _connect(self, *, create_local_storage: bool) -> None:
        if self._is_lite:  # gRPC would reach the server in this process through $http_proxy, which may be ourselves
            self._connect_kwargs["grpc_options"] = {"grpc.enable_http_proxy": 0}
        super()._connect(create_local_storage=create_local_storage)


class Library(MemSearch):  # type: ignore[misc]
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

    @property
    def embeds_words(self) -> bool:
        """The provider knows words, not sentences."""
        return isinstance(self._embedder, Builtin)

    @property
    def is_empty(self) -> bool:
        """Nothing has ever been indexed, or nothing is left: a search by words would fail."""
        return not self._store._collection_exists or self._store._collection_is_empty()  # noqa: SLF001

    def add(self, file: Path) -> int:
        """Index a file as it is now; how many of its chunks were new."""
        added: int = self._runner.run(self.index_file(file))
        return added

    def remove(self, source: str) -> None:
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

    def vector(self, text: str) -> list[float]:
        (vector,) = self._runner.run(self._embedder.embed([text]))
        return vector

    def by_meaning(self, vector: Sequence[float], limit: int, where: str) -> list[Hit]:
        """The nearest chunks, with their cosines."""
        return self._lane([list(vector)], "embedding", "COSINE", min(limit, MOST_FILTERED), where)

    def by_words(self, text: str, limit: int, where: str) -> list[Hit]:
        return self._lane([text], "sparse_vector", "BM25", limit, where)

    def chunked(self, source: str, content: str) -> list[Chunk]:
        """The chunks of a file, in order."""
        model = self._embedder.model_name
        return [
            Chunk(compute_chunk_id(each.source, each.start_line, each.end_line, each.content_hash, model), each.heading)
            for each in chunk_markdown(
                content, source=source, max_chunk_size=self._max_chunk_size, overlap_lines=self._overlap_lines
            )
        ]

    @property
    def _client(self) -> Any:
        return self._store._client  # noqa: SLF001 - memsearch offers the two lanes only as one

    def _lane(self, data: list[Any], field: str, metric: str, limit: int, where: str) -> list[Hit]:
        (found,) = self._client.search(
            self._collection,
            data=data,
            anns_field=field,
            limit=limit,
            filter=where,
            output_fields=FIELDS,
            search_params={"metric_type": metric},
        )
        return [
            Hit(
                hit["chunk_hash"],
                hit["entity"]["source"],
                hit["entity"]["heading"],
                hit["entity"]["content"],
                hit["entity"]["start_line"],
                float(hit["distance"]) if metric == "COSINE" else 0.0,
            )
            for hit in found
        ]


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


def quoted(value: str) -> str:
    """As a string in a filter of Milvus."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
