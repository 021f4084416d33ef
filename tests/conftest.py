"""What the tests of several folders share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from addons.demo.authority import AuthorityPaths, make_authority
from tests.harness import Loop, event_loop

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"


def pytest_configure(config: pytest.Config) -> None:
    """What a shell ignores for programs in the background would stay ignored in every program that tests start."""
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has the first only
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    # How long an example takes says more of the machine than of the code: `make bench` measures.
    hypothesis.settings.register_profile("mitmemory", deadline=None)
    hypothesis.settings.load_profile("mitmemory")
    # xdist would begin with the files of most tests. The longest have few tests, and one at the end is waited for alone.
    config.option.loadscopereorder = False
    gc.disable()  # until everything is loaded: a quarter of that time would go into looking for garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start a browser or a suite take longest: they come first, that workers end together."""

    def is_short(item: pytest.Item) -> bool:
        return "browser" not in item.path.parts and not hasattr(getattr(item, "module", None), "SuiteProcess")

    items.sort(key=is_short)


def pytest_collection_finish() -> None:
    """What the tests consist of lives to the end: no collection needs to look at it again."""
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes give no name to a test: compressed ones hold the time, and the workers of one run must agree on every name."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> AuthorityPaths:
    """The authority of the upstreams that stand in for the providers."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def background() -> Iterator[Loop]:
    with event_loop() as running:
        yield running


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Data of others, which the project does not ship."""
    if not SHARED.is_dir():
        pytest.skip("the shared data is not here")
    return SHARED
