"""The engine over real databases: what it finds, how it follows the files, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from memory.conversations import client_index
from memory.conversations import engine as engines
from memory.conversations.client_index import ClientIndex
from memory.conversations.embedding import Builtin, EmbeddingError, EmbeddingSettings, provider
from memory.conversations.engine import Engine, EngineSettings, ServerSettings
from memory.conversations.owner import LockedElsewhereError, lock
from memory.conversations.settings_file import SettingsFileError
from tests.memory.conversations.written import CAKE, KEY, NOON, SESSION, TAP, turn, write

PATIENCE = 60.0
"""Seconds for what is awaited: the machine may be busy."""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(lambda client: tmp_path / client)
    yield engine
    await engine.close()


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    until = time.monotonic() + PATIENCE
    while not await is_so():
        assert time.monotonic() < until, "it did not come to pass"
        await asyncio.sleep(0.05)


async def test_a_paraphrase_finds_the_whole_turn(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY, CAKE], [TAP])
    found = await engine.search("ada", "Who is going to repair the faucet?")
    best = found.memories[0]
    assert (
        best.text
        == "User: The tap in the kitchen drips.\n\nAssistant: Mr Novak comes on Friday to replace the cartridge."
    )
    assert (best.source, best.session, best.conversation) == (f"sessions/{SESSION}.md", SESSION, 2)
    assert best.started_at == NOON + timedelta(hours=1)
    assert best.heading == "User (2026-11-30 13:00:00 UTC, conversation 2, turn 1)"
    assert [memory.score for memory in found.memories] == sorted((one.score for one in found.memories), reverse=True)
    assert 0 < best.score <= 1


async def test_what_nothing_answers_finds_nothing_and_tells_what_is_there(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY, CAKE], [TAP])
    found = await engine.search("ada", "parliament election results in Mongolia")
    assert found.memories == ()
    assert found.as_text() == "No relevant memories found. 1 session is recorded, of 2026-11-30."
    assert (await engine.search("ada", "  ")).memories == ()


async def test_a_client_finds_its_own_alone(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY])
    write(tmp_path / "bob", [CAKE])
    assert [one.text[:5] for one in (await engine.search("ada", "spare key behind the clock")).memories] == ["User:"]
    assert (await engine.search("bob", "spare key behind the clock")).memories == ()
    assert (
        await engine.search("eve", "spare key")
    ).as_text() == "No relevant memories found. Nothing has been recorded yet."


async def test_the_asking_conversation_and_other_times_are_left_out(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY], [KEY], [KEY])
    asked = "Where is the spare key?"

    async def conversations(**bounds: object) -> list[int | None]:
        found = await engine.search("ada", asked, **bounds)  # type: ignore[arg-type]
        return sorted(one.conversation or 0 for one in found.memories)

    assert await conversations() == [1, 2, 3]
    assert await conversations(own=(SESSION, 2)) == [1, 3]
    assert await conversations(own=("2026-11-29T120000Z-bbbb", 2)) == [1, 2, 3]
    assert await conversations(after=NOON + timedelta(hours=1)) == [2, 3]
    assert await conversations(before=NOON + timedelta(minutes=30)) == [1]
    assert await conversations(before=NOON - timedelta(days=1)) == []
    assert len(await conversations(limit=2)) == 2


async def test_what_was_recorded_is_searchable_soon(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "ada", [KEY])
    await engine.status("ada")
    with path.open("a", encoding="utf-8") as file:
        file.write(turn(1, 2, NOON, TAP))
    engine.changed("ada", path)

    async def is_found() -> bool:
        return (await engine.status("ada")).chunks == 5

    await eventually(is_found)
    assert "Novak" in (await engine.search("ada", "Who repairs the tap?")).memories[0].text
    assert engines.SETTLE + engines.SLICE < 3  # what it may take, but for the work itself


async def test_what_a_person_edits_or_deletes_is_followed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LOOK_EVERY", 0.0)
    edited, deleted = write(tmp_path / "ada", [KEY]), write(tmp_path / "ada", [CAKE], session="2026-11-29T120000Z-bbbb")
    await engine.search("ada", "key")

    async def is_indexed() -> bool:
        return (await engine.status("ada")).files == 2

    await eventually(is_indexed)
    unfinished = tmp_path / "new.md"
    unfinished.write_text(edited.read_text().replace("behind the clock", "under the doormat"))
    unfinished.replace(edited)
    deleted.unlink()

    async def is_followed() -> bool:
        engine.changed("ada", tmp_path / "ada" / "sessions" / "none.md")  # wakes the keeper
        status = await engine.status("ada")
        return (status.files, status.chunks, status.pending) == (1, 3, 0)

    await eventually(is_followed)
    assert "doormat" in (await engine.search("ada", "spare key")).memories[0].text
    assert (await engine.search("ada", "lemon cake with poppy seed")).memories == ()


async def test_forgetting_and_dropping_leave_nothing(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "ada", [KEY])
    assert await engine.index("ada", path) == 3
    path.unlink()
    await engine.forget("ada", path)
    assert (await engine.status("ada")).chunks == 0
    assert (await engine.search("ada", "spare key")).memories == ()
    assert await engine.index("ada", path) == 0
    (tmp_path / "ada/.memsearch/milvus.db.broken").mkdir()

    def seen() -> list[str]:
        return sorted(one.name for one in (tmp_path / "ada/.memsearch").iterdir())

    assert await engine.discard("ada", seen) == [".unfinished", "lock"]


async def test_rebuilding_tells_how_far_it_is(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SLICE", 0.0)
    for day in range(1, 4):
        write(tmp_path / "ada", [KEY], session=f"2026-11-0{day}T120000Z-aaaa")
    await engine.search("ada", "key")
    told: list[tuple[int, int]] = []
    assert await engine.rebuild("ada", lambda done, total: told.append((done, total))) == 3
    assert (told[0], told[-1]) == ((0, 3), (3, 3))
    assert told == sorted(told)
    assert (await engine.status("ada")).chunks == 9


async def test_a_client_that_is_released_in_the_middle_of_its_work_stays_closed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLICE", "SETTLE"):
        monkeypatch.setattr(engines, name, 0.0)
    paths = [write(tmp_path / "ada", [KEY], session=f"2026-11-0{day}T120000Z-aaaa") for day in range(1, 4)]
    begun, goes_on, work = threading.Event(), threading.Event(), ClientIndex.work

    def slowly(index: ClientIndex, seconds: float) -> int:
        begun.set()
        assert goes_on.wait(PATIENCE)
        return work(index, seconds)

    monkeypatch.setattr(ClientIndex, "work", slowly)
    engine.changed("ada", paths[0])
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    released = asyncio.create_task(engine.release("ada"))
    await asyncio.sleep(0)
    goes_on.set()
    await released
    lock(tmp_path / "ada/.memsearch").close()  # nobody has it any more


async def test_who_closes_waits_for_one_library_and_not_for_the_work(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engines, "SETTLE", 0.0)
    begun, goes_on, imported = threading.Event(), threading.Event(), list[str]()

    def slowly(name: str) -> None:
        imported.append(name)
        begun.set()
        assert goes_on.wait(PATIENCE)

    monkeypatch.setattr(engines, "import_module", slowly)
    engine.changed("ada", write(tmp_path / "ada", [KEY]))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    asked = asyncio.create_task(engine.search("ada", "key"))
    await asyncio.sleep(0)
    closed = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    goes_on.set()
    await closed
    with pytest.raises(RuntimeError, match="closed"):
        await asked
    assert imported == ["pandas"]
    assert not (tmp_path / "ada/.memsearch/milvus.db").exists()
    assert caplog.messages == []


async def test_an_index_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "ada", [KEY])
    first = Engine(lambda client: tmp_path / client)
    await first.search("ada", "key")
    await first.close()
    again = Engine(lambda client: tmp_path / client)
    assert (await again.status("ada")) == client_index.IndexStatus(files=1, chunks=3, pending=0, failed=0)
    await again.close()
    with pytest.raises(RuntimeError, match="closed"):
        await again.search("ada", "key")


@pytest.mark.parametrize("damage", ["manifest", "state", "moved"])
async def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    write(tmp_path / "ada", [KEY])
    first = Engine(lambda client: tmp_path / client)
    await first.search("ada", "key")
    await first.close()
    folder = tmp_path / "ada"
    own = folder / ".memsearch"
    if damage == "manifest":
        for file in own.rglob("*.json"):
            if file.name != client_index.STATE:
                file.write_bytes(b"\0{")
    elif damage == "state":
        (own / client_index.STATE).write_text("[]")
    else:
        folder = folder.rename(tmp_path / "elsewhere")
    again = Engine(lambda client: folder)
    assert "clock" in (await again.search("ada", "spare key")).memories[0].text
    assert (await again.status("ada")).chunks == 3
    await again.close()
    assert (own / client_index.BROKEN).exists() == (damage == "manifest")


async def test_other_chunks_and_another_embedding_make_it_anew(tmp_path: Path) -> None:
    answer = "\n\n".join(f"The {word} paragraph of a long answer about many things." * 3 for word in "abcdefgh")
    write(tmp_path / "ada", [("A long story?", answer)])
    engine = Engine(lambda client: tmp_path / client)
    await engine.search("ada", "story")
    before = await engine.status("ada")
    await engine.release("ada")
    file = tmp_path / "ada/.memsearch.toml"
    assert 'provider = "builtin"' in file.read_text()
    file.write_text(file.read_text().replace("max_chunk_size = 1500", "max_chunk_size = 300"))
    await engine.search("ada", "story")
    after = await engine.status("ada")
    assert after.chunks > before.chunks
    assert "max_chunk_size = 300" in file.read_text()
    file.write_text("[chunking]\nmax_chunk_size = 1\n")
    await engine.release("ada")
    with pytest.raises(SettingsFileError, match="200 to 16000"):
        await engine.search("ada", "story")
    await engine.close()
    signature = EmbeddingSettings("openai", "text-embedding-3-small").signature
    assert signature != EmbeddingSettings("openai", "text-embedding-3-large").signature != EmbeddingSettings().signature


def test_bulk_is_flushed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(client_index, "FLUSHED_ROWS", 6)
    monkeypatch.setattr(client_index.ChunkStore, "flush", lambda chunk_store: flushed.append(chunk_store.count()))
    for day in range(1, 4):
        write(tmp_path / "ada", [KEY], session=f"2026-11-0{day}T120000Z-aaaa")
    index = ClientIndex(tmp_path / "ada", EmbeddingSettings(), "english", Builtin())
    index.work(PATIENCE)
    index.close()
    assert flushed == [9]


async def test_idle_clients_are_closed(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "ada", [KEY])
    await engine.search("ada", "key")
    monkeypatch.setattr(engines, "IDLE", 0.0)
    engine.changed("bob", path)  # wakes the keeper

    async def is_closed() -> bool:
        return engine._workers["ada"].index is None

    await eventually(is_closed)
    monkeypatch.setattr(engines, "IDLE", 900.0)
    assert (await engine.search("ada", "spare key")).memories != ()


@contextmanager
def process(program: str, *arguments: str) -> Iterator[str]:
    """What another process says first; it ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        yield running.stdout.readline().strip()
        running.stdin.close()


OWNER = """
import sys
from pathlib import Path
from memory.conversations.client_index import ClientIndex
from memory.conversations.embedding import Builtin, EmbeddingSettings
index = ClientIndex(Path(sys.argv[1]), EmbeddingSettings(), "english", Builtin())
index.work(60)
print("open", flush=True)
sys.stdin.read()
index.close()
"""


async def test_a_second_process_is_told_so(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY])
    with process(OWNER, str(tmp_path / "ada")) as said:
        assert said == "open"
        with pytest.raises(LockedElsewhereError, match="another process has this client's memory open"):
            await engine.search("ada", "key")
    assert (await engine.search("ada", "spare key")).memories != ()


SERVER = """
import logging, sys
logging.disable(logging.CRITICAL)
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, database, port = start_server_in_thread(data_dir=sys.argv[1], host="127.0.0.1", port=0)
print(port, flush=True)
sys.stdin.read()
server.stop(grace=0)
database.close()
"""


async def test_a_milvus_server_holds_a_collection_for_each_client(tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY])
    write(tmp_path / "bob", [CAKE])
    with process(SERVER, str(tmp_path / "server.db")) as port:
        settings = EngineSettings(server=ServerSettings(f"http://127.0.0.1:{port}"))
        engine = Engine(lambda client: tmp_path / client, settings)
        assert "clock" in (await engine.search("ada", "Where is the spare key?")).memories[0].text
        assert (await engine.search("bob", "Where is the spare key?")).memories == ()
        assert await engine.rebuild("ada") == 1
        assert (await engine.status("ada")).chunks == 3
        await engine.discard("bob", lambda: None)
        assert "clock" in (await engine.search("ada", "spare key")).memories[0].text
        await engine.close()
    assert not (tmp_path / "ada/.memsearch/milvus.db").exists()
    assert engines.collection_of(tmp_path / "ada") != engines.collection_of(tmp_path / "bob")


ALONE = """
import asyncio, socket, sys
from pathlib import Path
modules = {"memsearch", "pymilvus", "bm25s", "wordllama", "milvus_lite"}
from memory.conversations import embedding, engine, recall
assert not modules & sys.modules.keys(), modules & sys.modules.keys()
connect, connect_ex, lookup = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo
refused = []
def audit(event, arguments):
    if event in {"socket.connect", "socket.sendto"} and isinstance(arguments[1], tuple) and arguments[1][0] not in {"127.0.0.1", "::1"}:
        refused.append(arguments[1])
        raise OSError("refused")
    if event == "socket.getaddrinfo" and arguments[0] not in {"127.0.0.1", "localhost", "::1", None}:
        refused.append(arguments[0])
        raise OSError("refused")
sys.addaudithook(audit)
async def main():
    made = engine.Engine(lambda client: Path(sys.argv[1]) / client)
    found = await made.search("ada", "Where is the spare key?")
    print(found.memories[0].score > 0.3, refused, flush=True)
    await made.close()
asyncio.run(main())
"""


def test_nothing_connects_elsewhere_and_nothing_is_imported_early(tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY])
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_KEY")}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY"), "http://192.0.2.1:9")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**environment, **proxies},
        check=False,
    )
    assert done.stdout == "True []\n", done.stderr[-2000:]


async def test_files_are_their_owners_alone_and_logs_say_nothing(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = write(tmp_path / "ada", [KEY])
    await engine.search("ada", "Where is the spare key?")
    path.write_text(path.read_text() + f"## {'x' * 1100}\n\ntoo long a heading\n")
    await engine.index("ada", path)
    assert (await engine.status("ada")).failed == 1
    own = tmp_path / "ada/.memsearch"
    assert own.stat().st_mode & 0o777 == 0o700
    assert {
        file.stat().st_mode & 0o777 for file in (own / "index.json", own / "lock", tmp_path / "ada/.memsearch.toml")
    } == {0o600}
    said = caplog.text
    assert "a file could not be indexed (MilvusException)" in said
    assert not [word for word in ("clock", "spare", str(tmp_path), SESSION) if word in said]


def test_a_provider_without_its_key_is_an_error_and_none_is_chosen_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin = Builtin()
    assert provider(EmbeddingSettings(), builtin, {"OPENAI_API_KEY": "sk-x"}) is builtin
    for name, variable in {"openai": "OPENAI_API_KEY", "google": "GOOGLE_API_KEY", "voyage": "VOYAGE_API_KEY"}.items():
        with pytest.raises(EmbeddingError, match=f"set the variable `{variable}`"):
            provider(EmbeddingSettings(name), builtin, {})
    with pytest.raises(EmbeddingError, match="set the variable `OWN`"):
        provider(EmbeddingSettings("openai", api_key_env="OWN"), builtin, {"OPENAI_API_KEY": "sk-x"})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1:9")
    made = provider(
        EmbeddingSettings("openai", "text-embedding-3-small", api_key_env="OWN"), builtin, {"OWN": "sk-own"}
    )
    assert str(made._client.base_url) == "https://api.openai.com/v1/"  # type: ignore[attr-defined]
    assert made._client.api_key == "sk-own"  # type: ignore[attr-defined]
    own = EmbeddingSettings("openai", "text-embedding-3-small", base_url="http://127.0.0.1:9/v1")
    assert provider(own, builtin, {"OPENAI_API_KEY": "sk-x"})._client.api_key == "none"  # type: ignore[attr-defined]
    with pytest.raises(EmbeddingError, match="onnx"):
        provider(EmbeddingSettings("onnx"), builtin, {})


async def test_a_client_that_is_made_again_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    folders = {"ada": tmp_path / "ada"}
    write(tmp_path / "ada", [KEY])
    write(tmp_path / "ada-2", [TAP])
    engine = Engine(folders.__getitem__)
    before = await engine.search("ada", "key")
    folders["ada"] = tmp_path / "ada-2"
    after = await engine.search("ada", "key")
    assert (len(before.memories), len(after.memories)) == (1, 0)
    assert (await engine.search("ada", "tap")).memories[0].text.startswith("User: The tap")
    await engine.close()


async def test_a_search_waits_for_the_index_that_is_being_closed(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "ada", [KEY])
    for _ in range(5):
        await engine.search("ada", "key")
        _, found = await asyncio.gather(engine.release("ada"), engine.search("ada", "key"))
        assert len(found.memories) == 1
