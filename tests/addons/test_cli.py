"""The command: exit codes, messages, and JSON that is nothing but JSON. `main` is called here, no process is started."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mitmproxy.io import FlowWriter

from addons import cli
from addons.config import Config
from addons.makers import StartError
from addons.presence import Announcement, Presence
from addons.program import with_program
from tests.addons.conftest import GARDEN, HARBOUR
from tests.addons.parts import MESSAGES, flow_to
from tests.harness import MITMEMORY, mitmemory

type Ran = tuple[int, str, str]
type Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """(exit code, stdout, stderr) of a command line."""
    monkeypatch.setenv("COLUMNS", "200")

    def ran(*arguments: str | Path) -> Ran:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse's own way out
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return ran


@pytest.fixture
def config(tmp_path: Path, vault: Path) -> Path:
    return write_config(tmp_path, {"vault": vault})


def write_config(folder: Path, sources: dict[str, Path], **more: Any) -> Path:
    file = folder / "mitm.yaml"
    listed = [{"name": name, "type": "markdown", "path": str(path)} for name, path in sources.items()]
    file.write_text(yaml.safe_dump({"memory": {"sources": listed}, "state": str(folder / "state"), **more}), "utf-8")
    return file


def asked(*texts: str, **more: Any) -> bytes:
    messages = [{"role": "user", "content": text} for text in texts]
    return json.dumps({"model": "claude-test", "messages": messages, **more}).encode()


# ---- check


def test_check_of_a_good_configuration(run: Run, config: Path, tmp_path: Path, vault: Path) -> None:
    assert run("check", "--config", config) == (0, f"{config}: fine, 1 source\n", "")
    write_config(tmp_path, {"a": vault, "b": vault})
    assert run("check", "--config", config) == (0, f"{config}: fine, 2 sources\n", "")
    config.write_text("")
    assert run("check", "--config", config) == (0, f"{config}: fine, 0 sources\n", "")


@pytest.mark.parametrize("command", [("check",), ("map", "--json"), ("scan", "--json", "body.json"), ("run",)])
def test_a_wrong_configuration_is_said_line_by_line(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "mitm.yaml"
    file.write_text("mode: dispach\nproxy:\n  lisen: 127.0.0.1:1\n")
    code, out, err = run(*command, "--config", file)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith(f"{file}:1: mode: ")
    assert second.startswith(f"{file}:3: proxy.lisen: ")
    assert all("; mend: " in line for line in (first, second))


def test_a_configuration_that_is_not_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    assert run("check", "--config", file) == (
        2,
        "",
        f"{file}: there is no such file; mend: check the path, or leave it out\n",
    )


# ---- map


def test_map_as_json_is_what_the_api_gives(run: Run, config: Path) -> None:
    code, out, err = run("map", "--config", config, "--json")
    assert (code, err) == (0, "")
    given = json.loads(out)
    assert set(given) == {"loadedAt", "sources", "nodes", "links", "exposure"}
    assert given["exposure"] == {}
    assert [(node["id"], node["title"]) for node in given["nodes"]] == [
        ("vault/Garden.md", "Garden"),
        ("vault/projects/Harbour.md", "Harbour"),
    ]
    assert [(one["name"], one["kind"], one["notes"], one["error"]) for one in given["sources"]] == [
        ("vault", "markdown", 2, None)
    ]


def test_map_as_a_table(run: Run, config: Path) -> None:
    code, out, err = run("map", "--config", config)
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "source notes links unresolved orphans by name only skipped warnings" in rows
    assert "vault 2 0 0 2 0 0 0" in rows


def test_a_sources_name_is_shown_as_it_is(run: Run, tmp_path: Path, vault: Path) -> None:
    assert "[red]" in run("map", "--config", write_config(tmp_path, {"[red]": vault}))[1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_a_reader_that_has_enough_is_no_traceback(config: Path) -> None:
    command = [sys.executable, "-c", "import sys; from addons.cli import main; sys.exit(main())", "map", "--json"]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([*command, "--config", config], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_map_without_sources(run: Run, tmp_path: Path) -> None:
    file = write_config(tmp_path, {})
    assert run("map", "--config", file) == (0, "No source yet: add one under memory.sources in mitm.yaml.\n", "")


def test_a_source_that_cannot_be_read_fails_and_the_others_are_shown(run: Run, tmp_path: Path, vault: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(asked(GARDEN))
    file = write_config(tmp_path, {"gone": tmp_path / "gone", "vault": vault})
    for command in (("map", "--json"), ("scan", "--json", body)):
        code, out, err = run(*command, "--config", file)
        assert code == 1
        assert err.startswith("mitmemory: source gone: ")
        assert err.count("\n") == 1
        json.loads(out)
    assert len(json.loads(run("map", "--json", "--config", file)[1])["nodes"]) == 2


def test_a_source_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    file = write_config(tmp_path, {"gone": tmp_path / "gone"})
    ran = mitmemory("map", "--json", "--config", str(file))  # a process of its own, where nobody takes logs
    assert (ran.returncode, ran.stderr) == (1, f"mitmemory: source gone: {tmp_path / 'gone'} does not exist\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_names_that_no_terminal_can_show(run: Run, tmp_path: Path, vault: Path) -> None:
    body = tmp_path / os.fsdecode(b"caf\xe9.json")
    body.write_bytes(asked("Hello", model="half \ud800"))
    file = write_config(tmp_path, {"vault": vault})
    code, out, err = run("scan", "--config", file, body, "--json")
    assert (code, err) == (0, "")
    [read] = json.loads(out)["files"]
    assert (read["file"], read["requests"][0]["model"]) == (str(body), "half ?")
    assert run("scan", "--config", file, body)[0] == 0


# ---- scan


def test_scan_of_a_raw_body(run: Run, config: Path, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(asked("Look:\n" + HARBOUR, "And [[Garden]]?"))
    code, out, err = run("scan", body, "--config", config, "--json")
    assert (code, err) == (0, "")
    [file] = json.loads(out)["files"]
    [request] = file["requests"]
    assert (file["file"], request["model"]) == (str(body), "claude-test")
    assert request["scan"] == {"state": "complete", "reasons": []}
    assert set(request) == {"model", "scan", "notes"}
    assert sorted(request["notes"], key=lambda note: str(note["id"])) == [
        {
            "id": "vault/Garden.md",
            "title": "Garden",
            "by": "reference",
            "grade": "reference",
            "matched": 0,
            "distinctive": 2,
            "resent": False,
            "evidence": [{"pointer": "/messages/1/content", "lines": 0, "grade": "reference"}],
        },
        {
            "id": "vault/projects/Harbour.md",
            "title": "Harbour",
            "by": "content",
            "grade": "line",
            "matched": 3,
            "distinctive": 3,
            "resent": False,
            "evidence": [{"pointer": "/messages/0/content", "lines": 3, "grade": "line"}],
        },
    ]


def test_scan_of_all_three_kinds_of_files(run: Run, config: Path, tmp_path: Path) -> None:
    raw, har, flows = tmp_path / "body.json", tmp_path / "log.har", tmp_path / "flows"
    raw.write_bytes(asked("Hello"))
    request = {"url": f"{MESSAGES}?beta=true", "postData": {"mimeType": "application/json"}}
    request["postData"]["text"] = asked(GARDEN).decode()  # type: ignore[index]
    gemini = {"url": "https://h/v1beta/models/gemini-test:generateContent", "postData": {"text": '{"contents": []}'}}
    har.write_text(json.dumps({"log": {"entries": [{"request": request}, {"request": gemini}]}}))
    saved = io.BytesIO()
    writer = FlowWriter(saved)
    writer.add(flow_to(body=gzip.compress(asked(GARDEN)), headers={"Content-Encoding": "gzip"}))
    writer.add(flow_to(body=asked(GARDEN), headers={"Content-Encoding": "gzip"}))
    flows.write_bytes(saved.getvalue())
    code, out, _ = run("scan", raw, har, flows, "--config", config, "--json")
    assert code == 0
    shown = [
        (Path(file["file"]).name, one["model"], one["scan"]["state"], [note["id"] for note in one["notes"]])
        for file in json.loads(out)["files"]
        for one in file["requests"]
    ]
    assert shown == [
        ("body.json", "claude-test", "complete", []),
        ("log.har", "claude-test", "complete", ["vault/Garden.md"]),
        ("log.har", "gemini-test", "complete", []),
        ("flows", "claude-test", "complete", ["vault/Garden.md"]),
        ("flows", "", "unscanned", []),
    ]


def test_scan_as_tables(run: Run, config: Path, tmp_path: Path) -> None:
    one, none, two = tmp_path / "one.json", tmp_path / "[none].json", tmp_path / "two.har"
    one.write_bytes(asked(GARDEN))
    none.write_text("no [bold]JSON[/bold] at all")
    entries = [{"request": {"postData": {"text": text}}} for text in (asked(GARDEN).decode(), "{}")]
    two.write_text(json.dumps({"log": {"entries": entries}}))
    code, out, err = run("scan", one, none, two, "--config", config)
    assert (code, err) == (0, "")
    assert f"{none}: partial, not JSON; no note" in out.splitlines()
    assert f"{two}, request 2: complete; no note" in out.splitlines()
    assert [line.split() for line in out.splitlines()].count(
        ["vault/Garden.md", "line", "2/2", "/messages/0/content"]
    ) == 2


@pytest.mark.parametrize("how", ["missing", "cut"])
def test_a_file_that_cannot_be_read_is_wrong_input(run: Run, config: Path, tmp_path: Path, how: str) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad"
    good.write_bytes(asked(GARDEN))
    if how == "cut":
        bad.write_bytes(b"1000:cut")
    code, out, err = run("scan", good, bad, "--config", config, "--json")
    reason = {
        "missing": " cannot be read (No such file or directory): name a file with a request",
        "cut": ": not a complete mitmproxy flow file (Invalid data format.)",
    }[how]
    assert (code, out, err) == (2, "", f"mitmemory: {bad}{reason}\n")


# ---- run and demo, as far as that goes without a process


def test_run_hands_over(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Config, list[str]]] = []
    monkeypatch.setattr("addons.launcher.launch", lambda config, _when, flags: given.append((config, list(flags))))
    assert run("run", "--config", config) == (0, "", "")
    assert run("run", "--no-inspector", "--config", config, "--", "--set", "http2=false") == (0, "", "")
    (first, no_flags), (second, flags) = given
    assert (str(first.proxy.inspector), second.proxy.inspector) == ("127.0.0.1:8081", None)
    assert (no_flags, flags) == ([], ["--set", "http2=false"])


def test_a_start_that_fails_is_one_line(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StartError("127.0.0.1:8080 cannot be used")

    monkeypatch.setattr("addons.launcher.launch", fail)
    assert run("run", "--config", config) == (1, "", "mitmemory: 127.0.0.1:8080 cannot be used\n")


def test_a_suite_that_runs_already_is_named(run: Run, config: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        write_config(tmp_path, {}, proxy={"listen": address})
        suite = Presence(4711, "elsewhere", address, "127.0.0.1:8090", str(tmp_path))
        announcement = Announcement(tmp_path / "state", suite)
        announcement.announce()
        code, out, err = run("run", "--config", config)
        announcement.withdraw()
        assert (code, out) == (1, "")
        assert err == with_program(
            f"mitmemory: it runs already (process 4711, proxy {address}): `mitmemory link` prints a link to its "
            "dashboard\n",
            config,
        )
        code, out, err = run("run", "--config", config)
    assert (code, out) == (1, "")
    assert err.startswith(f"mitmemory: {address} cannot be used (Address already in use): end the program that has it")


def test_a_flag_that_mitmproxy_does_not_have_is_wrong_input(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mitm.yaml"
    proxy = "{listen: 127.0.0.1:0, inspector: 127.0.0.1:0}"
    file.write_text(f"proxy: {proxy}\ndashboard: {{listen: 127.0.0.1:0}}\nstate: {tmp_path / 'state'}\n")
    ended = mitmemory("run", "--config", str(file), "--", "--bogus")
    assert ended.returncode == 2
    assert (ended.stdout, ended.stderr) == ("", "mitmemory: after --: unrecognized arguments: --bogus\n")


def test_the_demo_reads_no_configuration(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mitm.yaml").write_text("broken: [")
    monkeypatch.chdir(tmp_path)
    played: list[bool] = []

    def play(*, once: bool) -> int:
        played.append(once)
        return 0

    monkeypatch.setattr("addons.demo.run.run_demo", play)
    assert run("demo", "--once") == (0, "", "")
    assert run("demo") == (0, "", "")
    assert played == [True, False]


# ---- streams


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["check"], ["map"], ["map", "--json"], ["env"], ["doctor"]])
def test_output_that_cannot_be_written_is_said(config: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [str(MITMEMORY), *arguments, "--config", str(config)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "mitmemory: the output cannot be written (No space left on device)\n"


def test_an_error_of_another_kind_is_not_taken_for_one_of_the_output(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (
        OSError(errno.ENOSPC, "No space left on device", "notes"),
        ConnectionRefusedError(errno.ECONNREFUSED),
    ):

        def fail(_config: Config, error: OSError = error) -> int:
            raise error

        monkeypatch.setattr("addons.cli.check", fail)
        with pytest.raises(OSError) as raised:
            cli.main(["check", "--config", str(config)])
        assert raised.value is error


@pytest.mark.skipif(os.name == "nt", reason="its shell closes no streams")
@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [("check", ">&-", 0), ("check", ">&- 2>&-", 0), ("env", ">&-", 0), ("hmac", "<&-", 2), ("map", "<&- >&- 2>&-", 0)],
)
def test_streams_that_are_closed_are_done_without(config: Path, arguments: str, closed: str, code: int) -> None:
    line = f"{shlex.quote(str(MITMEMORY))} {arguments} --config {shlex.quote(str(config))} {closed}"
    ended = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    said = "mitmemory: no API key came: type it, or send it to stdin\n" if arguments == "hmac" else ""
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", said)


def test_ctrl_c_is_no_traceback(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_config: Config) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("addons.cli.check", interrupt)
    before = signal.getsignal(signal.SIGINT)
    assert run("check", "--config", config) == (130, "", "")
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_no_traceback_before_main_either() -> None:
    """Such an interrupt comes out of whatever is being imported at that moment."""
    program = """
import sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "argparse":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
import addons.cli
"""
    root = Path(cli.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("command", ["map", "run", "doctor", "with"])
@pytest.mark.parametrize("after", [0.0, 0.1, 0.4, 0.9])
def test_ctrl_c_while_a_command_starts_is_a_clean_end(command: str, after: float, tmp_path: Path) -> None:
    file = tmp_path / "mitm.yaml"
    free = "{listen: 127.0.0.1:0, inspector: null}"
    file.write_text(f"proxy: {free}\ndashboard: {{listen: 127.0.0.1:0}}\nstate: {tmp_path / 'state'}\n")
    rest = ["--", "sleep", "60"] if command == "with" else []
    program = (
        "import sys; from addons import cli; real = cli._main\n"
        "def ready(arguments): print('ready', flush=True); return real(arguments)\n"
        "cli._main = ready\n"  # any sooner, and the signal may come before there is a command
        f"sys.exit(cli.main([{command!r}, '--config', {str(file)!r}, *{rest!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode in ({130, 0} if command in {"map", "doctor", "run"} else {130})


def test_the_command_itself_loads_nothing_that_takes_time() -> None:
    program = (
        "import sys; import addons.cli; print(sorted({'mitmproxy', 'rich', 'yaml', 'asyncio'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("fly",), "invalid choice: 'fly'"),
        (("scan",), "the following arguments are required: FILE"),
        (("run", "--fast"), "unrecognized arguments: --fast"),
        (("check", "--", "--set", "x=y"), "check takes nothing after --"),
        (("with",), with_program("name the program after --, like `mitmemory with -- claude`")),
        (("with", "--"), with_program("name the program after --, like `mitmemory with -- claude`")),
        (("with", "claude"), "unrecognized arguments: claude"),
        (("env", "--shell", "tcsh"), "invalid choice: 'tcsh'"),
        (("hmac", "sk-1"), "unrecognized arguments: sk-1"),
    ],
)
def test_a_wrong_command_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_version(run: Run) -> None:
    assert run("--version") == (0, "mitmemory 0.1.0\n", "")


# ---- data of others


def test_every_recorded_body_can_be_scanned(run: Run, config: Path, shared_data: Path) -> None:
    files = sorted(file for file in (shared_data / "llm").rglob("*") if file.is_file())
    assert len(files) > 100
    code, out, err = run("scan", *files, "--config", config, "--json")
    assert (code, err) == (0, "")
    given = json.loads(out)["files"]
    assert [file["file"] for file in given] == [str(file) for file in files]
    requests = {file["file"]: file["requests"] for file in given if ".request.json" in file["file"]}
    assert len(requests) == 58
    for (request,) in requests.values():
        assert request["notes"] == []
        assert request["scan"]["state"] in {"complete", "partial"}
        assert set(request["scan"]["reasons"]) <= {"attachment", "encoded or encrypted data"}


def test_every_vault_can_be_mapped(run: Run, tmp_path: Path, shared_data: Path) -> None:
    vaults = {folder.name: folder for folder in sorted((shared_data / "vaults").iterdir())}
    assert len(vaults) == 7
    code, out, err = run("map", "--config", write_config(tmp_path, vaults), "--json")
    assert (code, err) == (0, "")
    given = json.loads(out)
    assert [(source["name"], source["error"]) for source in given["sources"]] == [(name, None) for name in vaults]
    assert all(source["notes"] > 0 for source in given["sources"])
    assert sum(source["notes"] for source in given["sources"]) == len(given["nodes"])
