"""Conversations as notes: a note for each session that recall finds, and why no request shares one by its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from memory.conversations.archive import put_away, put_summary
from memory.conversations.deleting import delete_client, delete_session
from memory.conversations.recall import Memory, Recalled
from memory.index import NoteIndex
from memory.note_library import NoteLibrary, Snapshot
from memory.prints import LineFacts
from memory.rules import facts_of
from memory.scan import scan_value
from memory.sources import BuiltInSource, make_source
from memory.sources.conversations import ConversationsSource, note_of
from memory.sources.limits import Limits
from tests.memory.conversations.talk import Talk, assistant, user

QUESTION = "Where did I hang the spare key of the boathouse, behind which of the nets?"
ANSWER = "It hangs on the left-hand wall of the boathouse, right behind the third net."


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


def said(talk: Talk, question: str = QUESTION, client: str = "desk") -> str:
    """The session that it was recorded in; it is over then."""
    recorded = talk.say([user(question)], assistant(ANSWER), client=client)
    assert recorded is not None
    talk.now += timedelta(hours=4)
    return recorded.session


def library(talk: Talk) -> NoteLibrary:
    return NoteLibrary([make_source("conversations", "conversations", talk.directory)])


def notes(snapshot: Snapshot) -> dict[str, str]:
    return {note.id: note.title for note in snapshot.map.notes.values()}


async def test_a_session_is_a_note(talk: Talk) -> None:
    first, second = said(talk), said(talk, client="home")
    snapshot = await library(talk).scan()
    assert notes(snapshot) == {
        f"conversations/desk/{first}.md": "desk, 2026-11-30 04:12 UTC",
        f"conversations/home/{second}.md": "home, 2026-11-30 08:12 UTC",
    }
    [note] = [note for note in snapshot.map.notes.values() if "desk" in note.id]
    assert note.id == note_of("conversations", "desk", first)
    assert note.size == len((talk.directory / "desk" / "sessions" / f"{first}.md").read_bytes())
    facts = facts_of(note)
    assert (facts.source, facts.folder) == ("conversations", "conversations/desk")
    assert (snapshot.sources[0].error, snapshot.sources[0].skipped) == (None, 0)


async def test_a_request_that_sends_a_whole_transcript_shares_nothing(talk: Talk) -> None:
    """It would, did the note have the transcript's text: a client sends its own conversation again and again."""
    session = said(talk)
    path = talk.directory / "desk" / "sessions" / f"{session}.md"
    text = path.read_text("utf-8")
    body = {"messages": [{"role": "user", "content": text}, {"role": "user", "content": f"{QUESTION}\n{ANSWER}"}]}
    snapshot = await library(talk).scan()
    [note] = snapshot.map.notes.values()
    assert (note.text, snapshot.index.facts(note.id)) == ("", LineFacts(0, 0))
    named = text.replace(f"session: {session}", "")  # its frontmatter does, but as no link and no file
    for sent in (body, {"messages": [{"role": "user", "content": named}]}):
        assert scan_value(snapshot.index, sent).sightings == ()
    with_text = NoteIndex.build([replace(note, text=text, unread=False)], quotes=True)
    assert [one.note for one in scan_value(with_text, body).sightings] == [note.id]


async def test_a_request_that_carries_a_recalled_memory_shares_the_session(talk: Talk) -> None:
    session, other = said(talk), said(talk, "Which lock fits the boathouse?")
    snapshot = await library(talk).scan()
    memory = Memory(f"sessions/{session}.md", session, 1, "User", None, 0.7, ANSWER)
    result = {
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": Recalled((memory,)).as_text()}]}]
    }
    [sighting] = scan_value(snapshot.index, result).sightings
    assert (sighting.note, sighting.matched) == (f"conversations/desk/{session}.md", 0)
    assert [one.note for one in scan_value(snapshot.index, f"see {other}.md").sightings] == [
        f"conversations/desk/{other}.md"
    ]


async def test_a_session_stays_the_same_note_when_it_is_summarised(talk: Talk) -> None:
    session = said(talk)
    made = library(talk)
    before = await made.scan()
    put_summary(talk.directory / "desk", session, "# Summary\n\nThe key hangs.\n")
    assert notes(await made.scan()) == notes(before)  # for a moment it has both files
    put_away(talk.directory / "desk", session)
    after = await made.scan()
    assert notes(after) == notes(before)
    assert [note.size for note in after.map.notes.values()] == [len("# Summary\n\nThe key hangs.\n")]


async def test_what_is_deleted_is_no_note_at_the_next_scan(talk: Talk) -> None:
    first, second, other = said(talk), said(talk, "And the lock?"), said(talk, client="home")
    made = library(talk)
    assert len(notes(await made.scan())) == 3
    delete_session(talk.store.memory_of("desk"), first)
    assert sorted(notes(await made.scan())) == [
        note_of("conversations", "desk", second),
        note_of("conversations", "home", other),
    ]
    delete_client(talk.store, "desk")
    assert sorted(notes(await made.scan())) == [note_of("conversations", "home", other)]
    talk.store.configure([])  # a client that is gone leaves its folder behind, which nobody can recall from
    assert notes(await made.scan()) == {}


async def test_a_client_of_the_same_name_has_its_own_notes(talk: Talk) -> None:
    said(talk)
    talk.store.configure([])
    talk.store.configure(["desk"])
    session = said(talk, "What is new?")
    assert list(notes(await library(talk).scan())) == [note_of("conversations", "desk", session)]
    assert (talk.directory / "desk-2").is_dir()


async def test_a_persons_own_file_is_a_note_as_it_is_recalled(talk: Talk) -> None:
    session = said(talk)
    folder = talk.directory / "desk" / "sessions"
    (folder / "my own words.md").write_text("The net was mended.")
    (folder / "notes.txt").write_text("not searched")
    (folder / ".hidden.md").write_text("not searched")
    (folder / "folder.md").mkdir()
    assert notes(await library(talk).scan()) == {
        f"conversations/desk/{session}.md": "desk, 2026-11-30 04:12 UTC",
        "conversations/desk/my own words.md": "desk, my own words",
    }


async def test_nothing_recorded_is_no_error_and_a_damaged_directory_is(talk: Talk, tmp_path: Path) -> None:
    assert await ConversationsSource("a", tmp_path / "nowhere").load() == []
    source = make_source("a", "conversations", talk.directory)
    assert isinstance(source, BuiltInSource)
    (talk.directory / "clients.json").write_text("{")
    with pytest.raises(OSError, match=r"clients\.json is damaged"):
        await source.load()
    (talk.directory / "clients.json").unlink()
    assert await source.load() == []


async def test_the_newest_are_kept_whatever_their_size(talk: Talk) -> None:
    sessions = [said(talk, f"Question {number}?") for number in range(3)]
    source = ConversationsSource("a", talk.directory, limits=Limits(["desk/*-nothing*"], max_notes=2, max_note_bytes=1))
    assert [document.path for document in await source.load()] == [f"desk/{one}.md" for one in sessions[:0:-1]]
    assert source.report.skipped == 1
    left_out = ConversationsSource("a", talk.directory, limits=Limits([f"{sessions[2]}.md"]))
    assert [document.path for document in await left_out.load()] == [f"desk/{one}.md" for one in sessions[1::-1]]


async def test_it_is_read_again_only_where_something_changed(talk: Talk) -> None:
    said(talk)
    source = ConversationsSource("a", talk.directory)
    stamp = await source.stamp()
    assert await source.stamp() == stamp
    said(talk, "And the lock?")
    assert await source.stamp() != stamp
