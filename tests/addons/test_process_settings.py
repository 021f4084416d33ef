"""What the dashboard may change of the sources by itself, and what only mitm.yaml may say."""

from pathlib import Path

import pytest

from addons.config import SourceConfig
from addons.process_settings import refused

HOME = Path("/home/ada/.claude")
TALK = Path("/home/ada/.mitmemory/memory")
PLACES = {"claude_code": HOME, "conversations": TALK}
VAULT = SourceConfig("vault", "markdown", Path("/notes"), ("Old/*", "!Old/keep.md"), (".txt", ".org"))
OWN = SourceConfig("facts", "facts:Facts", Path("/facts.db"))


def source(
    name: str = "vault",
    kind: str = "markdown",
    path: str = "/notes",
    exclude: tuple[str, ...] = VAULT.exclude,
    extensions: tuple[str, ...] = VAULT.extensions,
    enabled: bool = True,
) -> SourceConfig:
    return SourceConfig(name, kind, Path(path), exclude, extensions, enabled)


@pytest.mark.parametrize(
    "after",
    [
        (),
        (VAULT, OWN),
        (OWN, VAULT),
        (OWN,),
        (source(name="other"),),
        (source(enabled=False),),
        (source(exclude=("Old/*", "!Old/keep.md", "New/*")),),
        (source(exclude=("New/*", "Old/*", "More/*", "!Old/keep.md")),),
        (source(extensions=(".txt",)),),
        (source(extensions=(".ORG", ".Txt")),),
        (source(extensions=()),),
        (VAULT, source(name="again")),
        (SourceConfig("cc", "claude_code", HOME),),
        (SourceConfig("talk", "conversations", TALK),),
        (SourceConfig("cc", "claude_code", HOME, ("projects/old/*",), enabled=False),),
    ],
)
def test_it_may(after: tuple[SourceConfig, ...]) -> None:
    assert refused((VAULT, OWN), after, PLACES) is None


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (source(path="/"), "vault would read another place than mitm.yaml says: change its path"),
        (source(path="/notes/Old"), "vault would read another place"),
        (source(name="VAULT", path="/etc"), "VAULT would read another place"),
        (source(name="new", path="/etc", exclude=(), extensions=()), "new would have mitmemory read a place"),
        (source(name="new", path="/etc", enabled=False), "new would have mitmemory read a place"),
        (source(kind="knowledge_graph", exclude=(), extensions=()), "vault would read another place"),
        (SourceConfig("new", "os:system", Path("/notes")), "new would run the class os:system in mitmemory"),
        (SourceConfig("facts", "facts:Facts", Path("/etc")), "facts would run the class facts:Facts in mitmemory"),
        (SourceConfig("facts", "facts:Other", Path("/facts.db")), "facts would run the class facts:Other in mitmemory"),
        (SourceConfig("new", "installed", Path("/notes")), "new would run the class installed"),
        (SourceConfig("talk", "conversations", HOME), "talk would have mitmemory read a place"),
        (SourceConfig("cc", "claude_code", Path("/home/bob/.claude")), "cc would have mitmemory read a place"),
        (source(extensions=(".txt", ".org", ".env")), "vault would read files of further types: change its extensions"),
        (source(extensions=(".key",)), "vault would read files of further types"),
        (source(exclude=()), "vault would leave out less than mitm.yaml says: change its exclude"),
        (source(exclude=("Old/*",)), "vault would leave out less"),
        (source(exclude=("!Old/keep.md", "Old/*")), "vault would leave out less"),
        (source(exclude=("Old/*", "!Old/keep.md", "!Old/*")), "vault would leave out less"),
        (source(exclude=("Old/*", " !Old/more.md", "!Old/keep.md")), "vault would leave out less"),
    ],
)
def test_it_may_not(after: SourceConfig, why: str) -> None:
    said = refused((VAULT, OWN), (VAULT, after), PLACES)
    assert said is not None
    assert said.startswith(why)
    assert "mitm.yaml" in said
    assert said.endswith("set dashboard.allow_process_settings to true there and restart mitmemory")


def test_the_reason_names_no_path() -> None:
    """What an environment variable holds would be in it."""
    said = refused((VAULT,), (source(path="/secret/place"), source(name="b", path="/secret/other")), PLACES)
    assert said is not None
    assert "secret" not in said


def test_claude_code_in_its_place_may_not_be_widened_by_a_second_one() -> None:
    before = SourceConfig("cc", "claude_code", HOME, ("projects/office/*",))
    assert refused((before,), (before, SourceConfig("more", "claude_code", HOME)), PLACES) is not None
    assert refused((before,), (SourceConfig("cc", "claude_code", HOME),), PLACES) is not None


def test_an_account_without_a_home_has_no_place_for_it() -> None:
    assert refused((), (SourceConfig("cc", "claude_code", HOME),), {"claude_code": None}) is not None
