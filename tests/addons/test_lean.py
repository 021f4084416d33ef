"""Less work in mitmproxy for each request, with the same hooks. Pins the parts of mitmproxy that are no public API."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.addonmanager import AddonManager, traverse
from mitmproxy.exceptions import AddonHalt
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._hooks import HttpRequestHook
from mitmproxy.test import taddons

from addons.lean import Lean, LeanAddons
from memory.note_library import NoteLibrary
from tests.addons.parts import flow_to

type Heard = list[str]


class Named:
    """An addon that tells when it is called, perhaps with others below it."""

    def __init__(self, name: str, heard: Heard, *below: object, raises: type[Exception] | None = None) -> None:
        self.name = name
        self.addons = list(below)
        self._heard = heard
        self._raises = raises

    def request(self, flow: http.HTTPFlow) -> None:
        self._heard.append(f"{self.name} {flow.request.host}")
        if self._raises is not None:
            raise self._raises


class Waiting(Named):
    async def request(self, flow: http.HTTPFlow) -> None:  # type: ignore[override]
        super().request(flow)


class Silent:
    """An addon without that hook, which is what most are."""

    def __init__(self, name: str, *below: object) -> None:
        self.name = name
        self.addons = list(below)


@pytest.fixture
def lean() -> Iterator[Lean]:
    one = Lean(NoteLibrary([]))
    yield one
    one.done()


def chain(heard: Heard) -> list[object]:
    return [
        Silent("silent"),
        Named("one", heard, Silent("below one"), Waiting("two", heard)),
        Silent("holder", Named("three", heard)),
        Named("faulty", heard, Named("after the fault", heard), raises=ValueError),
        Waiting("four", heard),
        Named("last word", heard, raises=AddonHalt),
        Named("never", heard),
    ]


@pytest.mark.parametrize("is_lean", [False, True])
async def test_the_same_hooks_are_called_in_the_same_order_and_those_after_a_fault(
    lean: Lean, caplog: pytest.LogCaptureFixture, is_lean: bool
) -> None:
    heard: Heard = []
    with taddons.context(*chain(heard)) as context:
        if is_lean:
            lean.running()
            assert type(context.master.addons) is LeanAddons
        await context.master.addons.trigger_event(HttpRequestHook(flow_to()))
        after = ["after the fault"] if is_lean else []
        names = ["one", "two", "three", "faulty", *after, "four", "last word"]
        assert heard == [f"{name} api.anthropic.com" for name in names]
        assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == ["Addon error: "]


@pytest.mark.parametrize("is_lean", [False, True])
def test_so_are_those_that_cannot_wait(lean: Lean, is_lean: bool) -> None:
    heard: Heard = []
    with taddons.context(*chain(heard), Silent("silent too")) as context:
        context.master.addons.remove(context.master.addons.get("four"))
        context.master.addons.get("one").addons.pop()
        if is_lean:
            lean.running()
        context.master.addons.trigger(HttpRequestHook(flow_to()))
        after = ["after the fault"] if is_lean else []
        assert heard == [f"{name} api.anthropic.com" for name in ("one", "three", "faulty", *after, "last word")]


async def test_who_has_a_hook_is_looked_for_once(lean: Lean, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    iter_hooks = AddonManager._iter_hooks

    def looked_through(self: AddonManager, addon: Any, event: Any) -> Any:
        looked_at.append(addon)
        return iter_hooks(self, addon, event)

    with taddons.context(*chain([])) as context:
        lean.running()
        addons = context.master.addons
        monkeypatch.setattr(AddonManager, "_iter_hooks", looked_through)
        for _ in range(3):
            await addons.trigger_event(HttpRequestHook(flow_to()))
        assert looked_at == addons.chain
        addons.get("silent").addons.append(Silent("new"))
        await addons.trigger_event(HttpRequestHook(flow_to()))
        assert looked_at == addons.chain * 2


async def test_what_is_no_function_keeps_no_other_from_being_called(
    lean: Lean, caplog: pytest.LogCaptureFixture
) -> None:
    heard: Heard = []
    wrong = Silent("wrong")
    wrong.request = "no function"  # type: ignore[attr-defined]
    with taddons.context(Named("one", heard, wrong), Named("two", heard)) as context:
        lean.running()
        await context.master.addons.trigger_event(HttpRequestHook(flow_to()))
    assert heard == ["one api.anthropic.com", "two api.anthropic.com"]
    assert "not callable" in caplog.text


async def test_an_addon_that_comes_later_is_called(lean: Lean) -> None:
    heard: Heard = []
    with taddons.context(Silent("first")) as context:
        lean.running()
        await context.master.addons.trigger_event(HttpRequestHook(flow_to()))
        context.master.addons.add(Named("late", heard))
        context.master.addons.get("first").addons.append(Named("later", heard))
        await context.master.addons.trigger_event(HttpRequestHook(flow_to()))
    assert heard == ["later api.anthropic.com", "late api.anthropic.com"]


def test_what_is_replaced_is_still_there_and_does_the_same() -> None:
    for name in ("trigger_event", "trigger"):
        source = inspect.getsource(getattr(AddonManager, name))
        assert "for i in self.chain:" in source
        assert "with safecall():" in source
        assert "except exceptions.AddonHalt:" in source
        assert len(source.splitlines()) <= 15
    source = inspect.getsource(AddonManager.invoke_addon)
    assert "for addon, func in self._iter_hooks(addon, event):" in source
    assert "inspect.isawaitable(res)" in source
    assert list(traverse([Silent("holder", one := Silent("one"))]))[1] is one


def test_it_ends_as_it_began(lean: Lean) -> None:
    gc.unfreeze()  # what the tests themselves have set aside
    logger = logging.getLogger("mitmproxy.proxy.server")
    filters, frozen, switch = list(logger.filters), gc.get_freeze_count(), sys.getswitchinterval()
    thresholds = gc.get_threshold()
    with taddons.context() as context:
        lean.running()
        assert logger.filters != filters
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        assert gc.get_threshold() == (10_000, *thresholds[1:])
        lean.done()
        assert type(context.master.addons) is AddonManager
    assert (logger.filters, gc.get_freeze_count(), sys.getswitchinterval()) == (filters, frozen, switch)
    assert gc.get_threshold() == thresholds


def test_that_an_answer_streams_is_not_logged(lean: Lean, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mitmproxy.proxy.server")
    caplog.set_level(logging.INFO)
    with taddons.context():
        lean.running()
        logger.info("Streaming response from api.anthropic.com.")
        logger.info("client connect")
        logger.error(ValueError("Streaming response from"))
        lean.done()
        logger.info("Streaming response from api.openai.com.")
    said = [record.getMessage() for record in caplog.records]
    assert said == ["client connect", "Streaming response from", "Streaming response from api.openai.com."]


def test_mitmproxy_still_says_it_in_those_words() -> None:
    source = inspect.getsource(HttpStream)
    assert 'commands.Log(f"Streaming response from {self.flow.request.host}.")' in source


async def test_what_lives_once_the_notes_are_read_is_set_aside_once() -> None:
    gc.unfreeze()  # what the tests themselves have set aside
    library = NoteLibrary([])
    lean, before = Lean(library), gc.get_freeze_count()
    with taddons.context() as context:
        lean.running()
        assert gc.get_freeze_count() == before
        await library.scan()
        assert gc.get_freeze_count() > before + 10_000
        assert library.on_change == []
        context.master.should_exit.set()
        lean.done()
        assert gc.get_freeze_count() > before + 10_000  # an exit takes longer without
        context.master.should_exit.clear()
        lean.done()
        lean.done()
    assert gc.get_freeze_count() == 0
