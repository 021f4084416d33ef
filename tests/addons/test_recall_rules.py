"""The loop under rules, with a real proxy process: what may not be in a request may not come by way of the memory either."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons import looping
from tests.addons.conftest import GARDEN, HARBOUR, Serve, configuration
from tests.addons.looping import KEEPER, QUESTION, Client, Model, asked, knows, said, searches, told, until
from tests.addons.test_recall_command import remember
from tests.addons.test_recall_inside import latest, said_by, until_found
from tests.addons.test_redirect import target
from tests.harness import RawUpstream, SuiteProcess

BUOYS = HARBOUR.splitlines()[6]
RULES = [
    {"name": "gardens go home", "when": {"note": "vault/Garden.md", "to": "cloud"}, "then": "redirect", "targets": ["home"]},
    {"name": "no harbours", "when": {"note": "vault/projects/Harbour.md", "to": "cloud"}, "then": "redact"},
]  # fmt: skip


@pytest.fixture(scope="module")
def word() -> str:
    return f"tern-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def cloud() -> Model:
    return Model()


@pytest.fixture(scope="module")
def home() -> Model:
    return Model()


@pytest.fixture(scope="module")
def upstream(serve: Serve, cloud: Model) -> RawUpstream:
    return serve(cloud)


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory,
    vault: Path,
    serve: Serve,
    upstream: RawUpstream,
    home: Model,
    authority: AuthorityPaths,
    word: str,
) -> Iterator[SuiteProcess]:
    folder = tmp_path_factory.mktemp("suite")
    gate = (f"The tide gate opens with {word}.", "Noted.")
    remember(folder / "state" / "memory", "keeper", gate, (f"Near the tide gate:\n{BUOYS}", "I will."))
    config = configuration(
        vault,
        {"anthropic": f"https://127.0.0.1:{upstream.port}"},
        clients=[KEEPER],
        rules=RULES,
        targets=[target("home", serve(home, tls=False).port)],
    )
    with SuiteProcess(folder, config, trust=authority.authority) as running:
        until_found(running, "keeper", word)
        yield running


@pytest.fixture
def client(suite: SuiteProcess) -> Iterator[Client]:
    with looping.client(suite) as one:
        yield one


def test_a_memory_that_a_rule_forbids_is_left_out(suite: SuiteProcess, client: Client, cloud: Model, word: str) -> None:
    cloud.will(searches("tide gate"), knows(word))
    assert said(client.ask(asked())[1]) == f"Let me see.It is {word}."
    assert BUOYS not in json.dumps(cloud.bodies)
    entry = latest(suite)
    assert (entry["recalls"]["memories"] >= 1, entry["notes"]) == (True, [])


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_is_redirected_goes_on_where_it_is(
    suite: SuiteProcess, client: Client, cloud: Model, home: Model, word: str, stream: bool
) -> None:
    cloud.will()
    home.will(searches("tide gate"), knows(word))
    _, data = client.ask(asked(f"{GARDEN}\n{QUESTION}", stream=stream))
    assert (said(data), cloud.requests) == (f"Let me see.It is {word}.", [])
    assert [body["model"] for body in home.bodies] == ["own-1", "own-1"]
    assert BUOYS in looping.results_of(home.bodies[1])[0]
    assert not any(one in request.head for request in home.requests for one in (b"secret", b"mitmemory"))
    entry = latest(suite)
    assert (entry["to"], [one["model"] for one in entry["sentTo"]]) == ("local", ["own-1"])
    assert (entry["recalls"]["memories"] >= 2, len(entry["notes"])) == (True, 2)


def test_what_is_withheld_stays_withheld(suite: SuiteProcess, client: Client, cloud: Model, word: str) -> None:
    cloud.will(searches("tide gate"), knows(word))
    assert word in said(client.ask(asked(f"{HARBOUR}\n{QUESTION}"))[1])
    bodies = [json.dumps(body) for body in cloud.bodies]
    assert [BUOYS in body for body in bodies] == [False, False]
    assert all("[withheld]" in body for body in bodies)
    exposure = suite.api("api/memory").body["exposure"]
    assert exposure.get("vault/projects/Harbour.md", {}).get("cloudContent", 0) == 0


def test_in_annotate_mode_nothing_is_changed(
    tmp_path: Path, vault: Path, upstream: RawUpstream, cloud: Model, authority: AuthorityPaths
) -> None:
    config = configuration(
        vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, clients=[KEEPER], mode="annotate"
    )
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite, looping.client(suite) as one:
        cloud.will(looping.says(looping.text("Good morning.")))
        assert said(one.ask(asked())[1]) == "Good morning."
        assert cloud.requests[0].body == json.dumps(asked()).encode()


def test_a_turn_with_a_search_in_it_outlives_the_suite(
    tmp_path: Path, vault: Path, upstream: RawUpstream, cloud: Model, authority: AuthorityPaths
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, clients=[KEEPER])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite, looping.client(suite) as one:
        cloud.will(searches(), knows("No relevant memories"))
        data = until(one.begin(asked()), b"event: message_stop")
        suite.process.send_signal(signal.SIGKILL)
        suite.process.wait()
        transcript = said_by(suite, "keeper")
    assert [transcript.count(text) for text in (QUESTION, "Let me see.It is No relevant memories.")] == [1, 1]
    assert "MemoryRecall" not in transcript
    assert [one["type"] for one in told(data)].count("message_start") == 1
