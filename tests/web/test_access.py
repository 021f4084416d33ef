"""Tokens, codes, sessions and names, without a server."""

import json
import stat
from pathlib import Path

import pytest

from web.access import MOST_CODES, MOST_SESSIONS, Access, Tokens, load_or_make_tokens

TOKENS = Tokens("a" * 20, "r" * 20)


class Clock:
    now = 1000.0

    def __call__(self: str) -> float:
        return self.now


@pytest.mark.parametrize(
    ("token", "role"),
    [
        ("a" * 20, "admin"),
        ("r" * 20, "read_only"),
        ("a" * 19, None),
        ("a" * 21, None),
        ("", None),
        ("é" * 20, None),
        ("\udcff", None),
    ],
)
def test_role_of_token(token: str, role: str | None) -> None:
    assert Access(TOKENS, 8090).role_of_token(token) == role


def test_a_code_opens_one_session_with_its_role() -> None:
    access = Access(TOKENS, 8090)
    code = access.make_code("read_only")
    redeemed = access.redeem(code)
    assert redeemed is not None
    secret, role = redeemed
    assert (role, access.role_of_session(secret)) == ("read_only", "read_only")
    assert access.redeem(code) is None
    assert access.role_of_session(code) is None
    assert access.redeem(secret) is None
    assert access.role_of_session("") is None


def test_codes_and_sessions_expire() -> None:
    clock = Clock()
    access = Access(TOKENS, 8090, clock=clock, code_lifetime=60, session_lifetime=100)
    early, late = access.make_code(), access.make_code()
    clock.now += 59
    redeemed = access.redeem(early)
    assert redeemed is not None
    clock.now += 1
    assert access.redeem(late) is None
    clock.now += 98
    assert access.role_of_session(redeemed[0]) == "admin"  # and is prolonged by this
    clock.now += 99
    assert access.role_of_session(redeemed[0]) == "admin"
    clock.now += 100
    assert access.role_of_session(redeemed[0]) is None


def test_codes_and_sessions_are_bounded_the_oldest_give_way() -> None:
    access = Access(TOKENS, 8090)
    codes = [access.make_code() for _ in range(MOST_CODES + 1)]
    assert access.redeem(codes[0]) is None
    first = access.redeem(codes[1])
    assert first is not None
    others = [access.redeem(access.make_code()) for _ in range(MOST_SESSIONS)]
    assert access.role_of_session(first[0]) is None
    assert all(one and access.role_of_session(one[0]) == "admin" for one in others)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8090", True),
        ("localhost:8090", True),
        ("LOCALHOST:8090", True),
        ("[::1]:8090", True),
        ("notes.example:8443", True),
        ("box.lan:8090", True),
        ("box.lan", True),
        ("127.0.0.1", False),
        ("localhost:8091", False),
        ("localhost.:8090", False),
        ("127.1:8090", False),
        ("notes.example", False),
        ("evil.example:8090", False),
        ("evil.example#127.0.0.1:8090", False),
        ("user@127.0.0.1:8090", False),
        ("", False),
    ],
)
def test_knows_host(host: str, known: bool) -> None:
    assert Access(TOKENS, 8090, hosts=("notes.example:8443", "Box.lan")).knows_host(host) is known


def test_port_80_is_left_out_by_browsers() -> None:
    assert Access(TOKENS, 80).knows_host("localhost")


def test_tokens_are_made_once_and_kept_for_the_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "below" / "state"
    made = load_or_make_tokens(state)
    path = state / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert json.loads(path.read_text()) == {"admin": made.admin, "read_only": made.read_only}
    assert len(made.admin) == len(made.read_only) == 43
    assert load_or_make_tokens(state) == made
    assert list(state.iterdir()) == [path]


def test_tokens_kept_too_openly_are_closed_again(tmp_path: Path) -> None:
    made = load_or_make_tokens(tmp_path)
    (tmp_path / "tokens.json").chmod(0o644)
    assert load_or_make_tokens(tmp_path) == made
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


def test_given_tokens_go_before_kept_ones_and_are_not_written(tmp_path: Path) -> None:
    given = load_or_make_tokens(tmp_path, admin="g" * 16)
    assert given.admin == "g" * 16
    assert "g" * 16 not in (tmp_path / "tokens.json").read_text()
    assert load_or_make_tokens(tmp_path / "other", "g" * 16, "h" * 16) == Tokens("g" * 16, "h" * 16)
    assert not (tmp_path / "other").exists()


def test_without_a_directory_tokens_are_new_each_time() -> None:
    assert load_or_make_tokens(None) != load_or_make_tokens(None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"admin": 1, "read_only": 2}', '{"admin": "short"}', "\x00"])
def test_a_damaged_file_is_replaced_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    (tmp_path / "tokens.json").write_text(text)
    made = load_or_make_tokens(tmp_path)
    assert load_or_make_tokens(tmp_path) == made
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("admin", "read_only", "says"),
    [
        ("short", None, "dashboard.tokens.admin must be at least 16"),
        ("", None, "dashboard.tokens.admin must be at least 16"),
        (None, "with a space in it!", "dashboard.tokens.read_only must be at least 16"),
        ("ümlaute-ümlaute-ümlaute", None, "printable ASCII"),
        ("s" * 16, "s" * 16, "must differ"),
    ],
)
def test_weak_tokens_are_refused(tmp_path: Path, admin: str | None, read_only: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        load_or_make_tokens(tmp_path, admin, read_only)
    assert list(tmp_path.iterdir()) == []


def test_no_secret_in_a_representation() -> None:
    access = Access(TOKENS, 8090)
    code = access.make_code()
    for text in (repr(TOKENS), repr(access), repr(vars(access))):
        assert "a" * 20 not in text
        assert code not in text
