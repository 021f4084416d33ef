"""One client's index: which files it holds, how it follows them, and how it is searched.

Everything here blocks and belongs to one thread, the client's worker (`memory.conversations.engine`). The index is
disposable: the markdown is the truth, and whatever is wrong with a database is mended by making it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memory.conversations.chunk_store import ChunkStore, Place, dropped, let_go
from memory.conversations.embedding import Builtin, EmbeddingSettings, provider
from memory.conversations.files import UNFINISHED, make_folder, replace
from memory.conversations.owner import LockedElsewhereError, is_locked, lock
from memory.conversations.pieces_file import PiecesFile, Stamp
from memory.conversations.recall import Recalled
from memory.conversations.searching import Question, Searching
from memory.conversations.settings_file import Chunking, read_chunking, write_settings

logger = logging.getLogger(__name__)

SESSIONS = "sessions"
FOLDER = ".memsearch"
DATABASE = "milvus.db"
BROKEN = "milvus.db.broken"
STATE = "index.json"
PIECES = "pieces"

FLUSHED_ROWS = 200
"""New rows that are searched slowly until they are flushed."""
SEARCH_WORK = 1.5
"""Seconds that a search spends on what is not indexed yet, before it searches what is."""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """`files` of the client that are indexed, `chunks` in them, files `pending`, and those that could not be read."""

    files: int
    chunks: int
    pending: int
    failed: int


def has_database(folder: Path) -> bool:
    """Something of this client may be indexed."""
    return (folder / FOLDER / DATABASE).exists()


def discard(folder: Path, server: Place | None) -> None:
    """Remove the index of a client, which nobody has open. Raises LockedElsewhereError, OSError, and what the libraries
    raise for a server that cannot be reached.
    """
    own = folder.resolve() / FOLDER
    if is_locked(own / DATABASE / "LOCK"):
        raise LockedElsewhereError
    if server is not None:
        dropped(server)
    for name in (STATE, PIECES):
        (own / name).unlink(missing_ok=True)
    for database in (own / DATABASE, own / BROKEN):
        if database.exists():
            shutil.rmtree(database, onexc=_unless_gone)


def _unless_gone(_what: object, _path: str, error: BaseException) -> None:
    """Milvus Lite may still be tidying up after it was closed."""
    if not isinstance(error, FileNotFoundError):
        raise error


class ClientIndex:
    """Opened by its constructor. Raises LockedElsewhereError, EmbeddingError, SettingsFileError, OSError, and what the
    libraries raise for a server that cannot be reached.
    """

    def __init__(
        self,
        folder: Path,
        embedding: EmbeddingSettings,
        language: str,
        builtin: Builtin,
        server: Place | None = None,
    ) -> None:
        self._folder = folder.resolve()
        self._sessions = self._folder / SESSIONS
        self._own_folder = self._folder / FOLDER
        make_folder(self._sessions)
        make_folder(self._own_folder)
        self._place = server or Place(str(self._own_folder / DATABASE))
        self._files: dict[str, Stamp] = {}
        self._pending: dict[str, None] = {}
        self._failed: set[str] = set()
        self._unflushed = 0
        self._is_valid = True
        self._runner = asyncio.Runner()
        self._lock = lock(self._own_folder)
        try:
            self._chunking = read_chunking(self._folder)
            write_settings(self._folder, embedding, self._chunking)
            self._provider = provider(embedding, builtin)
            self._made = self._signature(embedding, self._chunking)
            self._chunk_store = self._opened()
            kept = PiecesFile(self._own_folder / PIECES, self._made, self._own_folder / UNFINISHED)
            self._searching = Searching(self._sessions, self._files, language, builtin, kept)
            self.look()
        except BaseException:
            self._runner.close()
            self._lock.close()
            raise

    # Following the files

    def look(self) -> None:
        """See which files are new, changed or gone since they were indexed."""
        present = self._present()
        for source in [source for source in self._files if source not in present]:
            self.forget(source)
        self._pending.update(
            dict.fromkeys(source for source, stamp in present.items() if self._files.get(source) != stamp)
        )

    def changed(self, sources: Iterable[str]) -> None:
        """These files may have changed."""
        for source in sources:
            self._pending[os.path.realpath(source)] = None

    def work(self, seconds: float) -> int:
        """Index what is pending, for about so long; how many files are left."""
        until = time.monotonic() + seconds
        worked = False
        while self._pending:
            source = next(iter(self._pending))
            self._index(source)
            self._pending.pop(source, None)
            worked = True
            if time.monotonic() >= until:
                break
        if self._unflushed >= FLUSHED_ROWS and not self._pending:
            self._flush()
        if worked:
            self._save()
        return len(self._pending)

    def index(self, source: str) -> int:
        """Index one file now; how many chunks it has. 0: it is not there, or holds nothing. Raises OSError."""
        source = os.path.realpath(source)
        self._pending.pop(source, None)
        self._index(source)
        self._save()
        return self._chunk_store.chunks_of(source)

    def forget(self, source: str) -> None:
        """Drop a file's chunks."""
        source = os.path.realpath(source)
        self._chunk_store.remove(source)
        self._files.pop(source, None)
        self._pending.pop(source, None)
        self._failed.discard(source)
        self._save()

    def invalidate(self) -> None:
        """The next opening makes the index anew."""
        self._is_valid = False
        for name in (STATE, PIECES):
            (self._own_folder / name).unlink(missing_ok=True)

    @property
    def is_outdated(self) -> bool:
        """The person wants other chunks than it is made of. Raises SettingsFileError."""
        return read_chunking(self._folder) != self._chunking

    def search(self, question: Question) -> Recalled:
        """What answers the question. Raises what the libraries raise."""
        self.work(SEARCH_WORK)
        recalled = self._searching.search(self._chunk_store, question)
        if self._searching.unsaved >= FLUSHED_ROWS and not self._pending:
            self._save_pieces()
        return recalled

    @property
    def pending(self) -> int:
        """How many files are not indexed as they are now."""
        return len(self._pending)

    def status(self) -> IndexStatus:
        return IndexStatus(len(self._files), self._chunk_store.count(), len(self._pending), len(self._failed))

    def close(self) -> None:
        """What is pending is seen again at the next opening."""
        try:
            if self._unflushed:
                self._flush()
            if self._searching.unsaved and self._is_valid:
                self._save_pieces()
        finally:
            self._chunk_store.close()
            self._runner.close()
            self._lock.close()

    # The database and its state

    def _opened(self) -> ChunkStore:
        """Open the database. What was made otherwise is dropped, what cannot be opened is moved aside."""
        state = self._read_state()
        self._files.clear()
        if state is None:
            self._drop()
            return self._chunk_store_at()
        try:
            chunk_store = self._chunk_store_at()
            sources = chunk_store.sources()
        except Exception as error:
            # each layer of Milvus Lite has errors of its own for a database that it cannot read
            if not self._place.is_local:
                raise
            self._move_aside(error)
            return self._chunk_store_at()
        self._files.update((source, stamp) for source, stamp in state.items() if source in sources or not stamp[1])
        return chunk_store

    def _chunk_store_at(self) -> ChunkStore:
        return ChunkStore(self._place, self._provider, self._chunking, self._runner)

    def _drop(self) -> None:
        if not self._place.is_local:
            dropped(self._place)
            return
        self._check_unlocked()
        shutil.rmtree(self._place.uri, ignore_errors=True)

    def _move_aside(self, error: Exception) -> None:
        let_go(self._place)
        self._check_unlocked()
        broken = self._own_folder / BROKEN
        shutil.rmtree(broken, ignore_errors=True)
        Path(self._place.uri).rename(broken)
        logger.warning("an index could not be opened (%s): it is made anew", type(error).__name__)

    def _check_unlocked(self) -> None:
        if is_locked(Path(self._place.uri) / "LOCK"):  # by a program that does not know our lock
            raise LockedElsewhereError

    def _index(self, source: str) -> None:
        try:
            stat = Path(source).stat()
        except FileNotFoundError:
            self.forget(source)
            return
        stamp = (stat.st_mtime_ns, stat.st_size)
        if not self._is_ours(source):
            return
        try:
            self._unflushed += self._chunk_store.add(Path(source))
        except FileNotFoundError:
            self.forget(source)
            return
        except Exception as error:  # noqa: BLE001 - a file that Milvus or the provider refuses must not stop the others
            if source not in self._failed:
                self._failed.add(source)
                logger.warning("a file could not be indexed (%s)", type(error).__name__)
            return
        self._failed.discard(source)
        self._files[source] = stamp

    def _is_ours(self, source: str) -> bool:
        path = Path(source)
        return path.parent == self._sessions and path.suffix == ".md" and not path.name.startswith(".")

    def _present(self) -> dict[str, Stamp]:
        present = {}
        with os.scandir(self._sessions) as entries:
            for entry in entries:
                if self._is_ours(entry.path) and entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    present[entry.path] = (stat.st_mtime_ns, stat.st_size)
        return dict(sorted(present.items()))

    def _flush(self) -> None:
        self._chunk_store.flush()
        self._unflushed = 0

    def _save_pieces(self) -> None:
        with contextlib.suppress(OSError):  # then the next opening takes longer
            self._searching.save()

    def _signature(self, embedding: EmbeddingSettings, chunking: Chunking) -> str:
        """What the index depends on. Where the files are is part of it: each chunk names its file."""
        return json.dumps(
            [
                embedding.signature,
                self._provider.model_name,
                self._provider.dimension,
                chunking.max_chunk_size,
                chunking.overlap_lines,
                str(self._sessions),
                self._place.uri,
                self._place.collection,
            ]
        )

    def _read_state(self) -> dict[str, Stamp] | None:
        """Which files are indexed as they were when; None: the index was made otherwise, or nobody knows how."""
        try:
            document = json.loads((self._own_folder / STATE).read_bytes())
            if document["made"] != self._made:
                return None
            return {str(source): (int(modified), int(size)) for source, (modified, size) in document["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # whatever else may lie there is no state
            return None

    def _save(self) -> None:
        document = {"made": self._made, "files": self._files}
        content = json.dumps(document, separators=(",", ":")).encode()
        replace(self._own_folder / STATE, content, self._own_folder / UNFINISHED)
