"""`api/memory/sources`: shapes, and how each refusal is said. What is written is the business of tests/addons."""

from typing import Any

import pytest

from web.settings import NoSettings, NotChangedError

VAULT = {
    "name": "vault",
    "kind": "markdown",
    "path": "~/Notes",
    "exclude": ["Old/*"],
    "extensions": [".txt"],
    "enabled": False,
}


async def put(dashboard: Any, body: Any) -> tuple[int, Any]:
    async with dashboard.ask("PUT", "/api/memory/sources", json=body) as answer:
        return answer.status, await answer.json()


async def test_the_whole_list_is_written_and_given(dashboard: Any) -> None:
    status, body = await put(dashboard, {"sources": [VAULT, {"name": "cc", "kind": "claude_code"}], "version": "v1"})
    written = [
        VAULT,
        {"name": "cc", "kind": "claude_code", "path": None, "exclude": [], "extensions": [], "enabled": True},
    ]
    assert (status, body) == (200, {"sources": written})
    assert dashboard.services.settings.versions == ["v1"]
    async with dashboard.ask("GET", "/api/memory/sources", token="read-only-token-of-the-tests") as answer:
        assert (answer.status, await answer.json()) == (200, {"sources": written})
    assert await put(dashboard, {"sources": []}) == (200, {"sources": []})
    assert dashboard.services.settings.versions == ["v1", None]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "sources must be a list of at most 100"),
        ({"sources": {}}, "sources must be a list of at most 100"),
        ({"sources": [VAULT] * 101}, "sources must be a list of at most 100"),
        ({"sources": [], "state": None}, "there is no 'state' here"),
        ({"sources": [], "version": 1}, "version must be the text that"),
        ({"sources": ["vault"]}, "sources[0] must be an object with name, kind"),
        ({"sources": [VAULT | {"type": "markdown"}]}, "sources[0] has no 'type': the keys are name, kind"),
        ({"sources": [VAULT, {"kind": "markdown"}]}, "sources[1].name must be text"),
        ({"sources": [VAULT | {"name": None}]}, "sources[0].name must be text"),
        ({"sources": [{"name": "vault"}]}, "sources[0].kind must be text"),
        ({"sources": [VAULT | {"path": 1}]}, "sources[0].path must be text"),
        ({"sources": [VAULT | {"path": "x" * 4097}]}, "sources[0].path must be text, at most 4096"),
        ({"sources": [VAULT | {"path": "\ud800"}]}, "sources[0].path must be text"),
        ({"sources": [VAULT | {"exclude": "Old/*"}]}, "sources[0].exclude must be a list of texts"),
        ({"sources": [VAULT | {"exclude": ["a", 1]}]}, "sources[0].exclude[1] must be text"),
        ({"sources": [VAULT | {"extensions": ["x"] * 1001}]}, "sources[0].extensions must be a list of texts"),
        ({"sources": [VAULT | {"enabled": 1}]}, "sources[0].enabled must be true or false"),
        ({"sources": [VAULT | {"enabled": None}]}, "sources[0].enabled must be true or false"),
    ],
)
async def test_other_shapes_are_refused(dashboard: Any, body: Any, said: str) -> None:
    status, answer = await put(dashboard, body)
    assert (status, answer["error"]["code"], answer["error"]["message"][: len(said)]) == (400, "bad_request", said)
    assert dashboard.services.settings.versions == []


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        ("invalid", 400, "bad_request"),
        ("refused", 403, "process_settings"),
        ("changed", 409, "changed"),
        ("unwritable", 409, "not_writable"),
    ],
)
async def test_each_refusal_has_its_status(dashboard: Any, cause: Any, status: int, code: str) -> None:
    dashboard.services.settings.refuse = NotChangedError(cause, "because, and do this")
    error = {"error": {"code": code, "message": "because, and do this"}}
    assert await put(dashboard, {"sources": []}) == (status, error)
    async with dashboard.ask("GET", "/api/memory/sources") as answer:
        assert (answer.status, await answer.json()) == (status, error)


async def test_a_suite_without_a_file_changes_nothing(open_dashboard: Any) -> None:
    async with open_dashboard(settings=NoSettings()) as dashboard:
        status, answer = await put(dashboard, {"sources": []})
        assert (status, answer["error"]["code"]) == (409, "not_writable")
        async with dashboard.ask("GET", "/api/memory/sources") as given:
            assert (await given.json())["sources"] == []
