"""The activity log: what it costs the event loop, how fast its file is written, asked and exported.

The plain baseline is a table of ids and entries as JSON, written in the same batches: no chain, nothing to look up by.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from memory.activity import EXPORT_CHUNK
from memory.activity_export import BODIES
from memory.activity_file import open_to_read, open_to_write
from memory.activity_rows import append, count_requests, prune, read_all, read_requests, verify_rows
from memory.activity_store import ActivityStore
from memory.activity_writer import LARGEST_BATCH
from memory.exchange import Evidence, Exchange, Scan, SentTo, Sighting, Usage
from memory.rules import dry_run
from tests.bench.measure import Figure, milliseconds, settled_memory
from tests.bench.rules import rules_and_facts

ROWS = 100_000
LARGE_ROWS = 1_000_000
DRY_RUN = 100_000
"""Exchanges (the issue of dispatch)."""
PUTS = 5000
QUESTIONS = 15
START = datetime(2026, 1, 1, tzinfo=UTC)
CLIENTS = ["claude-code"] * 90 + ["codex"] * 9 + ["gemini-cli"]
MODELS = ["claude-sonnet-4"] * 80 + ["gpt-5"] * 19 + ["llama3.2"]


def exchanges(seed: int) -> Iterator[tuple[Exchange, Exchange]]:
    """As one after the other comes by: released, and over. A third carries notes, three on average."""
    chance = random.Random(seed)
    sent = {model: SentTo(model, "cloud", "api.example.com:443") for model in MODELS}
    notes = [f"vault/area {number % 40}/Note {number}.md" for number in range(2000)]
    moment = START
    while True:
        moment += timedelta(milliseconds=chance.randrange(1, 5000))
        model = chance.choice(MODELS)
        seen = chance.sample(notes, chance.randrange(1, 6)) if chance.random() < 0.33 else []
        sightings = tuple(
            Sighting(
                note,
                note[5:-3],
                "content",
                "line",
                3,
                9,
                tuple(Evidence(f"/messages/{chance.randrange(90)}/content/{one}/text", 1, "line") for one in range(3)),
            )
            for note in seen
        )
        made: dict[str, Any] = {
            "id": f"{int(moment.timestamp() * 1e6):014x}",
            "started_at": moment,
            "provider": "example",
            "protocol": "anthropic",
            "model": model,
            "client": chance.choice(CLIENTS),
            "conversation": f"{chance.randrange(2**64):016x}",
            "to": "cloud",
            "upstream": "api.example.com:443",
            "scan": Scan("complete", (), sightings),
            "sent_to": [sent[model]],
            "request_bytes": chance.randrange(10**6),
        }
        over: dict[str, Any] = {
            "usage": Usage(chance.randrange(10**5), chance.randrange(4000), chance.randrange(10**5), 0),
            "response_bytes": chance.randrange(10**5),
            "status": 200,
            "outcome": "answered",
            "finished_at": moment + timedelta(seconds=chance.randrange(1, 60)),
        }
        yield Exchange(**made), Exchange(**made, **over)


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _put(seed, Path(folder))
        rows = LARGE_ROWS if large else ROWS
        ledger, plain = Path(folder) / "ledger.db", Path(folder) / "plain.db"
        yield from _written(seed, ledger, plain, rows)
        yield from _asked(ledger, plain, rows)
        yield from _exported(ledger, plain, rows)
        yield from _tried(seed, ledger)
        yield _pruned(ledger)


def _put(seed: int, folder: Path) -> Iterator[Figure]:
    made = exchanges(seed)
    puts = [one for _ in range(PUTS // 2) for one in next(made)]
    store = ActivityStore(folder / "put.db", keep=86_400, max_entries=LARGE_ROWS)
    store.start()
    plain = _plain(folder / "put-plain.db")
    with settled_memory():
        of_entry = _each(puts, Exchange.to_json)
        of_store = _each(puts, store.put)
        of_plain = _each(
            puts, lambda one: plain.execute("INSERT INTO entries VALUES (?, ?)", (one.id, json.dumps(one.to_json())))
        )
    plain.close()
    store._writer.stop()
    yield Figure(
        "put, on the event loop",
        of_store * 1e6,
        "µs",
        50,
        baseline=f"a plain insert there {of_plain * 1e6:.0f} µs",
        ratio=of_plain / of_store,
        note=f"of it {of_entry * 1e6:.0f} µs make the entry; each of {PUTS:,} by itself, the median",
    )


def _each(puts: Sequence[Exchange], put: Callable[[Exchange], object]) -> float:
    """The median CPU time of this thread, in seconds, with the pauses in which the writer gets its turn."""
    taken: list[float] = []
    for number, one in enumerate(puts):
        if number % 100 == 0:
            time.sleep(0.001)
        start = time.thread_time()
        put(one)
        taken.append(time.thread_time() - start)
    return median(taken)


def _written(seed: int, file: Path, plain_file: Path, rows: int) -> Iterator[Figure]:
    made = exchanges(seed)
    ledger, plain = open_to_write(file), _plain(plain_file)
    of_ledger = of_plain = 0.0
    for _ in range(rows // LARGEST_BATCH):
        batch = [one.to_json() for _ in range(LARGEST_BATCH // 2) for one in next(made)]
        start = time.perf_counter()
        append(ledger, batch, 1)
        of_ledger += time.perf_counter() - start
        start = time.perf_counter()
        plain.execute("BEGIN")
        plain.executemany("INSERT INTO entries VALUES (?, ?)", [(one["id"], json.dumps(one)) for one in batch])
        plain.execute("COMMIT")
        of_plain += time.perf_counter() - start
    for connection in (ledger, plain):
        connection.close()
    size, plain_size = (one.stat().st_size / (rows / 2) for one in (file, plain_file))
    yield Figure(
        "rows written",
        rows / of_ledger,
        "rows/s",
        baseline=f"plain {rows / of_plain:,.0f} rows/s",
        ratio=of_plain / of_ledger,
        note=f"{rows:,} in batches of {LARGEST_BATCH:,}; wall clock, with the disk",
    )
    yield Figure(
        "file, per exchange",
        size,
        "bytes",
        baseline=f"plain {plain_size:,.0f} bytes",
        ratio=plain_size / size,
        note="two rows each, indexes and all",
    )


def _asked(file: Path, plain_file: Path, rows: int) -> Iterator[Figure]:
    store = ActivityStore(file, keep=86_400, max_entries=LARGE_ROWS)  # not started: the file alone answers
    newest, _ = store.entries(limit=1)
    with closing(_reader(plain_file)) as plain:
        [middle] = plain.execute("SELECT id FROM entries ORDER BY id LIMIT 1 OFFSET ?", (rows // 2,)).fetchone()
        of_plain = [_wall(lambda: _plain_page(plain)) for _ in range(QUESTIONS)]
        [plain_note] = [_wall(lambda: _plain_page(plain, "%vault/area 7/Note 7.md%"))]
    questions: dict[str, dict[str, Any]] = {
        "newest": {},
        "from the middle": {"before": middle},
        "rare client": {"client": "gemini-cli"},
        "two filters": {"client": "codex", "model": "gpt-5"},
        "with notes": {"notes_only": True},
        "of a note": {"note": "vault/area 7/Note 7.md"},
        "of a note and a client": {"note": "vault/area 7/Note 7.md", "client": "codex"},
        "of a client that is none": {"client": "nobody"},
    }
    assert newest
    for name, question in questions.items():
        taken = [_wall(lambda asked=question: store.entries(limit=100, **asked)) for _ in range(QUESTIONS)]
        by_note = "note" in question
        beside = plain_note if by_note else median(of_plain)
        yield Figure(
            f"page, {name}",
            milliseconds(taken),
            "ms",
            20,
            baseline=f"plain, {'a search in the text' if by_note else 'newest'} {beside * 1e3:.1f} ms",
            ratio=beside / median(taken),
            note=f"100 entries of {rows:,} rows; wall clock, with opening the file",
        )


def _exported(file: Path, plain_file: Path, rows: int) -> Iterator[Figure]:
    with closing(_reader(plain_file)) as plain:
        start = time.thread_time()
        for (text,) in plain.execute("SELECT entry FROM entries ORDER BY rowid"):
            text.encode()
        of_plain = time.thread_time() - start
    for kind, encode in BODIES.items():
        with closing(open_to_read(file)) as connection:
            start, size = time.thread_time(), 0
            for entries in read_all(connection, None, EXPORT_CHUNK):
                size += len(encode(entries).encode())
            taken = time.thread_time() - start
        yield Figure(
            f"export, {kind}",
            size / taken / 1e6,
            "MB/s",
            baseline=f"plain rows as they are {rows / of_plain:,.0f} rows/s",
            ratio=of_plain / taken,
            note=f"{rows / 2 / taken:,.0f} exchanges/s",
        )
    with closing(open_to_read(file)) as connection:
        start = time.thread_time()
        verdict = verify_rows(connection)
        taken = time.thread_time() - start
    assert verdict.fault is None
    yield Figure(
        "verify", rows / taken, "rows/s", baseline=f"plain read {rows / of_plain:,.0f} rows/s", ratio=of_plain / taken
    )


def _tried(seed: int, file: Path) -> Iterator[Figure]:
    """A dry run from the file, which gets as many exchanges as the goal speaks of: most of them have two rows."""
    book, facts = rules_and_facts(seed)
    made = exchanges(seed + 1)
    with closing(open_to_write(file)) as ledger:
        while (held := count_requests(ledger, None)) < DRY_RUN:
            append(ledger, [next(made)[0].to_json() for _ in range(min(LARGEST_BATCH, DRY_RUN - held))], 1)
    with closing(open_to_read(file)) as connection:
        cpu, wall = time.thread_time(), time.perf_counter()
        found = dry_run(book, read_requests(connection, None), facts)
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        start, merged = time.thread_time(), 0
        for entries in read_all(connection, None, EXPORT_CHUNK):
            merged += len(entries)
        of_all = time.thread_time() - start
    assert found.tested == merged
    yield Figure(
        f"dry run from the file, {found.tested:,} exchanges",
        cpu,
        "s",
        5,
        baseline=f"reading whole entries alone {of_all:.1f} s",
        ratio=of_all / cpu,
        note=f"{len(book.rules)} rules; a third carry notes",
    )
    yield Figure("the same, wall clock", wall, "s", 5, note="with whatever else this machine does")


def _pruned(file: Path) -> Figure:
    with closing(open_to_write(file)) as connection:
        start, gone = time.perf_counter(), 0
        for _ in range(20):
            gone += prune(connection, before=2, most=LARGE_ROWS)
        taken = time.perf_counter() - start
    return Figure("rows pruned", gone / taken, "rows/s", note="wall clock, with the disk")


def _plain(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entries (id TEXT NOT NULL, entry TEXT NOT NULL)")
    connection.execute("CREATE INDEX entries_id ON entries (id)")
    return connection


def _reader(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)


def _plain_page(connection: sqlite3.Connection, like: str = "%") -> list[Any]:
    found = connection.execute("SELECT entry FROM entries WHERE entry LIKE ? ORDER BY id DESC LIMIT 100", (like,))
    return [json.loads(entry) for (entry,) in found]


def _wall(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
