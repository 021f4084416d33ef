"""The loop with a real proxy process and real TLS. The model knows nothing: it answers with a random word, which only the memory
can have told it, or that nobody has.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.loop.answering import LAST_SEARCH
from tests.addons import looping
from tests.addons.conftest import HARBOUR, Serve, configuration
from tests.addons.loop.anthropic_says import read, text
from tests.addons.looping import (
    KEEPER,
    NO_WORD,
    Client,
    Model,
    Slowly,
    asked,
    fails,
    kinds,
    knows,
    said,
    says,
    searches,
    told,
    until,
)
from tests.addons.test_recall_command import remember
from tests.harness import RawUpstream, SuiteProcess

OTHERS = [
    {"name": "stranger", "match": {"user_agent": "stranger*"}, "mode": "mcp_via_llm"},
    {"name": "both", "match": {"user_agent": "both*"}, "memory_enabled": True},
]
BUOYS = HARBOUR.splitlines()[6]


@pytest.fixture(scope="module")
def word() -> str:
    return f"tern-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def upstream(serve: Serve, model: Model) -> RawUpstream:
    return serve(model)


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, upstream: RawUpstream, authority: AuthorityPaths, word: str
) -> Iterator[SuiteProcess]:
    folder = tmp_path_factory.mktemp("suite")
    remember(folder / "state" / "memory", "keeper", (f"The tide gate opens with {word}.\n{BUOYS}", "Noted."))
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, clients=[KEEPER, *OTHERS])
    with SuiteProcess(folder, config, trust=authority.authority) as running:
        until_found(running, "keeper", word)
        yield running


@pytest.fixture
def client(suite: SuiteProcess) -> Iterator[Client]:
    with looping.client(suite) as one:
        yield one


def until_found(suite: SuiteProcess, client: str, word: str, query: str = "tide gate") -> None:
    """Until the index is open, and a search is a matter of milliseconds."""

    def found() -> bool:
        answer = suite.api(f"api/clients/{client}/recall", method="POST", body={"query": query})
        return word in json.dumps(answer.body)

    suite.wait_for(found, "a memory that is found")


def latest(suite: SuiteProcess) -> dict[str, Any]:
    """The last entry of the activity, once it is over."""
    suite.wait_for(lambda: bool(suite.activity(0, finished=False)[0]["outcome"]), "an outcome")
    return suite.activity()[0]


def exposed(suite: SuiteProcess) -> int:
    exposure = suite.api("api/memory").body["exposure"]
    return sum(exposure.get("vault/projects/Harbour.md", {}).get(one, 0) for one in ("cloudContent", "localContent"))


@pytest.mark.parametrize("stream", [True, False])
def test_the_model_answers_with_what_only_the_memory_knows(
    suite: SuiteProcess, client: Client, model: Model, word: str, stream: bool
) -> None:
    before = exposed(suite)
    model.will(searches("tide gate"), knows(word))
    body = asked("Which word opens the tide gate?", stream=stream, tools=[{"name": "Read", "input_schema": {}}])
    status, data = client.ask(body)
    assert (status, said(data)) == (200, f"Let me see.It is {word}.")
    if stream:
        assert [kinds(data).count(one) for one in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
        assert [one["index"] for one in told(data) if one["type"] == "content_block_start"] == [0, 1]
    assert b"MemoryRecall" not in data
    first, second = model.requests
    history = first.body[: first.body.index(b"}]", first.body.index(b"messages"))]
    assert second.body.startswith(history + b"},")  # all that a provider has cached of the first is in the second
    for request in (first, second):
        head = request.head.lower()
        assert b"x-api-key: secret" in head
        assert b"accept-encoding: identity" in head
        assert not any(one in head for one in (b"gzip", b"mitmemory"))
    assert [tool["name"] for tool in model.bodies[1]["tools"]] == ["Read", "MemoryRecall"]
    assert said_by(suite, "keeper").count(f"Let me see.It is {word}.") == 1
    entry = latest(suite)
    assert entry["usage"] == {"input": 20, "output": 10, "cacheRead": None, "cacheWrite": None}
    assert (entry["recalls"]["searches"], entry["recalls"]["memories"] >= 1) == (1, True)
    assert (entry["outcome"], entry["status"], len(entry["sentTo"])) == ("answered", 200, 1)
    assert [note["id"] for note in entry["notes"]] == ["vault/projects/Harbour.md"]
    assert exposed(suite) == before + 1


def said_by(suite: SuiteProcess, client: str) -> str:
    """The transcripts of a client."""
    return "".join(file.read_text("utf-8") for file in (suite.state / "memory" / client / "sessions").glob("*.md"))


def test_the_next_request_goes_on_with_what_really_passed(
    suite: SuiteProcess, client: Client, model: Model, word: str
) -> None:
    model.will(searches("tide gate"), knows(word), says(text("You are welcome.")))
    question = "What of the gate of the tide?"
    answer = said(client.ask(asked(question))[1])
    content = [text("Let me see."), text(f"It is {word}.")]
    assert answer == "".join(one["text"] for one in content)
    client.ask(asked(question, {"role": "assistant", "content": content}, "Thank you."))
    kinds_sent = [
        [block["type"] for block in message["content"]] if isinstance(message["content"], list) else "text"
        for message in model.bodies[2]["messages"]
    ]
    assert kinds_sent == ["text", ["text", "tool_use"], ["tool_result"], ["text"], "text"]
    assert word in model.bodies[2]["messages"][2]["content"][0]["content"]
    transcript = said_by(suite, "keeper")
    [conversation] = [one for one in transcript.split("# Conversation ") if question in one]
    assert [conversation.count(one) for one in ("## User", "## Assistant", "Thank you.")] == [2, 2, 1]
    entry = latest(suite)
    assert [(note["id"], note["resent"]) for note in entry["notes"]] == [("vault/projects/Harbour.md", True)]


def test_the_conversation_that_asks_is_not_searched(suite: SuiteProcess, client: Client, model: Model) -> None:
    mine = f"plover-{secrets.token_hex(4)}"
    first = f"The word of the lighthouse is {mine}."
    model.will(says(text("Noted.")))
    client.ask(asked(first))
    until_found(suite, "keeper", mine, "word of the lighthouse")
    model.will(searches("word of the lighthouse"), knows(mine), searches("word of the lighthouse"), knows(mine))
    assert NO_WORD in said(client.ask(asked(first, "Noted.", "Which word has the lighthouse?"))[1])
    assert mine in said(client.ask(asked("Which word has the lighthouse?"))[1])


@pytest.mark.parametrize("agent", ["stranger/1", "both/1", "nobody/1"])
def test_others_never_see_the_tool_and_keep_the_straight_way(
    suite: SuiteProcess, model: Model, upstream: RawUpstream, agent: str
) -> None:
    with looping.client(suite, agent=agent) as one:
        for _ in range(2):
            model.will(says(text("Good morning.")))
            body = asked("Good morning.")
            assert said(one.ask(body)[1]) == "Good morning."
            assert model.requests[0].body == json.dumps(body).encode()
            assert b"Accept-Encoding: gzip" in model.requests[0].head
            assert latest(suite)["recalls"] == {"searches": 0, "memories": 0}


def test_an_answer_without_a_search_passes_to_the_byte(suite: SuiteProcess, client: Client, model: Model) -> None:
    answers = []
    for stream in (True, False):
        step = says(text("Good morning."))
        expected = step(asked(stream=stream))
        assert expected
        model.will(step)
        answers.append(client.ask(asked("Good morning.", stream=stream))[1] == expected.partition(b"\r\n\r\n")[2])
        assert "MemoryRecall" in json.dumps(model.bodies)
    assert answers == [True, True]


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_of_the_provider_passes_as_it_is(client: Client, model: Model, stream: bool) -> None:
    model.will(fails("429 Too Many", b'{"oh":   "no"}'))
    answer = client.begin(asked(stream=stream))
    assert (answer.status, answer.reason, answer.headers["retry-after"], answer.read()) == (
        429,
        "Too Many",
        "7",
        b'{"oh":   "no"}',
    )


@pytest.mark.parametrize("fault", [fails("429 Too Many"), lambda _body: None])
def test_what_breaks_off_after_a_search_is_told_in_the_words_of_the_protocol(
    suite: SuiteProcess, client: Client, model: Model, fault: looping.Step
) -> None:
    dies = fault({}) is None
    model.will(searches(), fault)
    status, data = client.ask(asked())
    assert (status, said(data), kinds(data)[-1]) == (200, "Let me see.", "error")
    error = told(data)[-1]["error"]
    assert error["type"] == ("api_error" if dies else "rate_limit_error")
    assert error["message"] == (f"{looping.HOST} closed the connection before it answered" if dies else "Slow.")
    assert latest(suite)["outcome"] == "failed"
    model.will(searches(), fault)
    status, data = client.ask(asked(stream=False))
    assert (status, json.loads(data)["error"]["message"]) == (502 if dies else 429, error["message"])
    assert latest(suite)["outcome"] == "failed"


def test_pings_come_at_once_and_until_the_model_goes_on(client: Client, model: Model, word: str) -> None:
    slow = Slowly(knows(word))
    model.will(searches(), slow)
    answer = client.begin(asked())
    begun = until(answer, b"see.")
    pings = begun.count(b"event: ping")
    begun += until(answer, b"event: ping") if begun.endswith(b"see.") else b""
    while begun.count(b"event: ping") == pings:  # the first is the provider's own
        begun += answer.read1()
    slow.go_on()
    rest = answer.read()
    assert said(begun + rest) == f"Let me see.It is {word}."


def test_four_requests_at_most(suite: SuiteProcess, client: Client, model: Model) -> None:
    model.will(*[searches("tide gate", first=f"{number}.") for number in range(4)])
    data = client.ask(asked())[1]
    assert (said(data), kinds(data)[-1], len(model.requests)) == ("0.1.2.3.", "message_stop", 4)
    results = [looping.results_of(body)[0].endswith(LAST_SEARCH) for body in model.bodies[1:]]
    assert results == [False, False, True]
    assert latest(suite)["recalls"]["searches"] == 3


def test_a_client_that_leaves_takes_everything_with_it(suite: SuiteProcess, model: Model, word: str) -> None:
    slow = Slowly(knows(word))
    model.will(searches(), slow)
    with looping.client(suite) as one:
        until(one.begin(asked()), b"see.")
        slow.wait(slow.begun)
    slow.wait(slow.left)
    assert latest(suite)["outcome"] == "aborted"


def test_calls_of_the_clients_own_tools_wait_for_it(client: Client, model: Model, word: str) -> None:
    both = says(looping.recall("call-1", "tide gate"), read("call-2"), stop="tool_use")
    model.will(both, knows(word))
    data = client.ask(asked())[1]
    calls = [one["content_block"]["name"] for one in told(data) if one["type"] == "content_block_start"]
    assert calls == ["Read"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call-2", "content": "Tides."}]}
    seen = {"role": "assistant", "content": [read("call-2")]}
    assert said(client.ask(asked(looping.QUESTION, seen, result))[1]) == f"It is {word}."
    assert [one["tool_use_id"] for one in model.bodies[1]["messages"][-1]["content"]] == ["call-1", "call-2"]


def test_a_socket_is_refused_so_that_the_client_takes_https(suite: SuiteProcess, upstream: RawUpstream) -> None:
    connections = upstream.connections
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "eA==",
        "Sec-WebSocket-Version": "13",
    }
    with looping.client(suite) as one:
        one.connection.request("GET", "/v1/messages", headers={"User-Agent": one.agent, **headers})
        answer = one.connection.getresponse()
        assert (answer.status, b"HTTPS" in answer.read()) == (426, True)
    assert upstream.connections == connections


def test_the_connection_to_the_provider_is_kept(client: Client, model: Model, upstream: RawUpstream, word: str) -> None:
    model.will(searches(), knows(word), searches(), knows(word))
    client.ask(asked())
    connections = upstream.connections
    assert word in said(client.ask(asked())[1])
    assert upstream.connections == connections


def test_what_was_deleted_is_not_put_back_into_the_conversation(
    suite: SuiteProcess, client: Client, model: Model, word: str
) -> None:
    model.will(searches("tide gate"), knows(word), says(text("You are welcome.")))
    question = "And the gate, once more?"
    client.ask(asked(question))
    newest = suite.api("api/clients/keeper/memory/sessions").body["sessions"][0]["session"]
    deleted = suite.api(f"api/clients/keeper/memory/sessions/{newest}", method="DELETE", body={})
    assert deleted.status == 200, deleted.body
    content = [text("Let me see."), text(f"It is {word}.")]
    client.ask(asked(question, {"role": "assistant", "content": content}, "Thank you."))
    assert [message["content"] for message in model.bodies[2]["messages"]] == [question, content, "Thank you."]
