"""A transcript reads well, and parses back to exactly what was said, whatever that was."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.conversations.escaping import escape, open_fence, unescape
from memory.conversations.transcript import (
    Called,
    Link,
    Part,
    Piece,
    Returned,
    Span,
    called,
    conversation_heading,
    frontmatter,
    model_name,
    one_line,
    parse,
    render,
)

AT = datetime(2026, 11, 30, 4, 12, 33, tzinfo=UTC)
HOSTILE = (
    *("# Conversation 9 (2026-11-30 04:12:33 UTC)", "## User (2026-11-30 04:12:33 UTC, conversation 1, turn 9)"),
    *("---", "===", "--", "-", "text\n---", "text\n===\n", "```", "~~~", "````\n```", "    # indented", "  # heading"),
    *("<!-- session:a turn:b transcript:c -->", "<!--", "<\\!--", "-->", "<!-- closed -->", "\n```\n<!-- closed -->"),
    *("\\", "\\# x", "\\\\# x", "\\---", "> Called Read: {}", "> Result of 3 characters: abc", "\\> Called a: b"),
    *(
        "\0",
        "\\\0",
        "&#0;",
        "\\&#0;",
        "\\\\&#0;",
        "&#00;",
        "&#65;",
        "&#99999;",
        "\r",
        "\r\n",
        "a\r\nb\r",
        "\ud800",
        "\udfff",
    ),
    *(
        "\u2028# x",
        "\x85# x",
        "\x0b# x",
        "\x0c# x",
        "\x1e# x",
        "\r# x",
        "\ufeff# x",
        "\t# x",
        " ",
        "\n\n",
        "\n",
        "é",
        "e\u0301",
    ),
    *("Goes on from conversation 1 of [[2026-11-30T041233Z-k3f9]].", "---\nclient: x\nsession: y\nstarted: z\n---\n"),
)
TEXTS = st.lists(
    st.one_of(st.sampled_from(HOSTILE), st.text(max_size=9), st.text("#-=`~<!\\&;0 \r\n>", max_size=12)), max_size=8
).flatmap(lambda parts: st.sampled_from(["", "\n", " ", "\n\n"]).map(lambda between: between.join(parts)))
SUMMARIES = st.builds(Called, st.from_regex(r"[\w./@+-]{1,20}", fullmatch=True), TEXTS.map(one_line)) | st.builds(
    Returned, st.integers(0, 10**9), TEXTS.map(one_line)
)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[Piece, ...]:
    found: list[Piece] = []
    for one in draw(st.lists(TEXTS.filter(bool) | SUMMARIES, max_size=5)):
        if not (isinstance(one, str) and found and isinstance(found[-1], str)):
            found.append(one)
    return tuple(found)


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    return [
        Part(
            draw(st.integers(1, 3)),
            draw(st.integers(1, 4)),
            AT + timedelta(seconds=place),
            draw(pieces()),
            model=(model := draw(st.sampled_from([None, "claude-sonnet-4", "org/model:8b@x"]))),
            instead_of=draw(st.sampled_from([None, 2])),
            continued=model is not None and draw(st.booleans()),
            again=model is not None and draw(st.booleans()),
            cut_off=model is not None and draw(st.booleans()),
        )
        for place in range(draw(st.integers(1, 6)))
    ]


def file_of(said: list[Part]) -> str:
    text = frontmatter("work", "2026-11-30T041233Z-k3f9", AT)
    writing = None
    for part in said:
        if part.conversation != writing:
            text += conversation_heading(part.conversation, part.at)
            writing = part.conversation
        text += render(part)
    return text


@given(TEXTS)
def test_what_is_escaped_reads_back(text: str) -> None:
    assert unescape(escape(text)) == text


@given(TEXTS)
def test_no_text_has_a_heading_a_comment_or_what_ends_lines_elsewhere(text: str) -> None:
    written = escape(text)
    assert not re.search(r"^#{1,6}\s", written, re.MULTILINE)
    assert "<!--" not in written.removesuffix("<!-- closed -->")
    assert written.encode("utf-8").decode() == written  # no half of a pair
    assert (
        written.replace("\r\n", "\n").splitlines() == written.replace("\r\n", "\n").removesuffix("\n").split("\n")
        or not written
    )
    assert open_fence(written) is None


@given(parts())
def test_a_transcript_parses_back_to_what_was_said(said: list[Part]) -> None:
    content = file_of(said).encode()
    transcript = parse(content)
    assert (transcript.client, transcript.session, transcript.started) == (
        *("work", "2026-11-30T041233Z-k3f9", "2026-11-30T04:12:33Z"),
    )
    found = [part for chat in transcript.conversations for turn in chat.turns for part in turn.parts]
    assert sorted(found, key=lambda part: part.at) == said
    for chat in transcript.conversations:
        for turn in chat.turns:
            for part, span in zip(turn.parts, turn.spans, strict=True):
                assert content[span.start : span.end].decode() == render(part)
                lines = content.split(b"\n")[span.first_line - 1 : span.last_line]
                assert b"\n".join(lines) + b"\n" == content[span.start : span.end]


def test_a_transcript_looks_like_this() -> None:
    said = [
        Part(1, 1, AT, ("Where is the key?\n\n# Really\n",)),
        Part(
            *(1, 1, AT + timedelta(seconds=8)),
            ("I look.", Called("Read", '{"file_path": "/notes/keys.md"}'), Returned(812, "# Keys …"), "In the box."),
            model="claude-sonnet-4",
        ),
        Part(2, 1, AT + timedelta(seconds=9), ("Hello",)),
        Part(1, 2, AT + timedelta(seconds=10), ("Which?",), instead_of=1),
        Part(1, 2, AT + timedelta(seconds=11), ("The bl",), model="gpt-5", cut_off=True),
    ]
    assert file_of(said) == (
        "---\nclient: work\nsession: 2026-11-30T041233Z-k3f9\nstarted: 2026-11-30T04:12:33Z\n---\n\n"
        "# Conversation 1 (2026-11-30 04:12:33 UTC)\n\n"
        "## User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)\n\nWhere is the key?\n\n\\# Really\n\n\n"
        "## Assistant (2026-11-30 04:12:41 UTC, claude-sonnet-4, conversation 1, turn 1)\n\nI look.\n\n"
        '> Called Read: {"file_path": "/notes/keys.md"}\n\n> Result of 812 characters: # Keys …\n\nIn the box.\n\n'
        "# Conversation 2 (2026-11-30 04:12:42 UTC)\n\n"
        "## User (2026-11-30 04:12:42 UTC, conversation 2, turn 1)\n\nHello\n\n"
        "# Conversation 1 (2026-11-30 04:12:43 UTC)\n\n"
        "## User (2026-11-30 04:12:43 UTC, conversation 1, turn 2, instead of turn 1)\n\nWhich?\n\n"
        "## Assistant (2026-11-30 04:12:44 UTC, gpt-5, conversation 1, turn 2, cut off)\n\nThe bl\n\n"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# Conversation 9 (2026-11-30 04:12:33 UTC)", "\\# Conversation 9 (2026-11-30 04:12:33 UTC)"),
        ("  ## User", "  \\## User"),
        ("    # a comment of indented code", "    # a comment of indented code"),
        ("a #tag, C#", "a #tag, C#"),
        ("Title\n---\ntext", "Title\n\\---\ntext"),
        ("Title\n  ===  ", "Title\n  \\===  "),
        ("above\n\n---\n\nbelow", "above\n\n---\n\nbelow"),
        ("---\nclient: x", "---\nclient: x"),
        ("| a |\n|---|\n| b |", "| a |\n|---|\n| b |"),
        ("x <!-- session:a --> y", "x <\\!-- session:a --> y"),
        ("```py\n# comment\n```", "```py\n\\# comment\n```"),
        ("```py\nx = 1", "```py\nx = 1\n```\n<!-- closed -->"),
        ("~~~~\n~~~\n", "~~~~\n~~~\n\n~~~~\n<!-- closed -->"),
        ("- ```\n  a\n  ```", "- ```\n  a\n  ```"),
        ("a\r\nb", "a\r\nb"),
        ("a\r# b", "a&#13;# b"),
        ("a\0b\u2028c\ud800", "a&#0;b&#8232;c&#55296;"),
        ("&#0; &amp; &#65;", "\\&#0; &amp; &#65;"),
        ("> Called Read: x", "\\> Called Read: x"),
        ("> quoted", "> quoted"),
    ],
)
def test_escapes_are_few_and_plain(text: str, written: str) -> None:
    assert escape(text) == written
    assert unescape(written) == text


def test_five_megabytes_read_back() -> None:
    text = "# line\r\n\0 <!-- ``` é\n---\n" * 220_000
    assert len(text) > 5_000_000
    part = Part(1, 1, AT, (text,))
    [chat] = parse(file_of([part]).encode()).conversations
    assert chat.turns[0].parts == (part,)


def test_places_are_bytes_and_lines() -> None:
    content = file_of([Part(1, 1, AT, ("é\nü",)), Part(1, 2, AT, ("b",))]).encode()
    [chat] = parse(content).conversations
    assert chat.headings == (Span(85, 129, 7, 8),)
    assert [turn.spans for turn in chat.turns] == [(Span(129, 195, 9, 13),), (Span(195, 257, 14, 17),)]
    assert content[195:].startswith(b"## User (2026-11-30 04:12:33 UTC, conversation 1, turn 2)\n\nb")


def test_a_conversation_says_which_one_it_goes_on_from() -> None:
    heading = conversation_heading(2, AT, goes_on_from=Link("2026-11-29T041233Z-k3f9", 7))
    assert heading == (
        "# Conversation 2 (2026-11-30 04:12:33 UTC)\n\nGoes on from conversation 7 of [[2026-11-29T041233Z-k3f9]].\n\n"
    )
    [chat] = parse(f"{heading}{render(Part(2, 1, AT, ('a',)))}".encode()).conversations
    assert (chat.number, chat.started, chat.goes_on_from) == (2, AT, Link("2026-11-29T041233Z-k3f9", 7))


def test_a_user_cannot_say_what_a_conversation_goes_on_from() -> None:
    text = f"{conversation_heading(1, AT)}{render(Part(1, 1, AT, ('Goes on from conversation 7 of [[x]].',)))}"
    assert parse(text.encode()).conversations[0].goes_on_from is None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5", "gpt-5"),
        ("org/model:8b", "org/model:8b"),
        ("a, turn 9)\n# x", "a-turn-9-x"),
        ("", "unknown"),
        ("\ud800()", "unknown"),
        ("m" * 200, "m" * 80),
    ],
)
def test_a_models_name_cannot_forge_a_heading(model: str, name: str) -> None:
    assert model_name(model) == name
    part = Part(1, 1, AT, ("a",), model=name)
    assert parse(f"{conversation_heading(1, AT)}{render(part)}".encode()).conversations[0].turns[0].parts == (part,)


def test_tools_are_told_in_one_line() -> None:
    assert called("Read\n# x: y", '{"a":\n "b"}') == Called("Read-x-y", '{"a": "b"}')
    assert called("", "a" * 201) == Called("-", "a" * 200 + "…")
    assert one_line("```\ncode\n```") == "''' code '''"


@given(st.binary(max_size=300))
def test_any_file_can_be_read(content: bytes) -> None:
    parse(content)


def test_a_file_that_was_edited_by_hand_can_be_read() -> None:
    content = (
        b"my own words \xff\n\n## Notes\n\n## User (2026-13-41 04:12:33 UTC, conversation 1, turn 1)\n\nno such day\n\n"
    )
    good = render(Part(1, 2, AT, ("a",))).encode()
    transcript = parse(content + good + b"\n\nwritten below \xff")
    assert transcript.client == ""
    [turn] = transcript.conversations[0].turns
    assert turn.parts[0].pieces == ("a\n\n\n\nwritten below \udcff",)
    assert (content + good + b"\n\nwritten below \xff")[turn.spans[0].start :].startswith(good)
