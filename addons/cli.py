"""The `mitmemory` command.

Exit 0: done; 1: it failed while running; 2: the input is wrong; 130: ended by Ctrl-C. A person's mistake gets a message,
never a traceback. With `--json`, stdout holds the JSON and nothing else.

Each command loads what it needs when it is called (hence the imports inside of functions): it takes a second for some,
in which Ctrl-C shall be no traceback either.
"""

from __future__ import annotations

try:
    import argparse
    import errno
    import io
    import os
    import signal
    import sys
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TYPE_CHECKING

    from addons.exits import FAILED, INTERRUPTED, OK, WRONG_INPUT
except KeyboardInterrupt:  # before `main` could hear it; 130 is what INTERRUPTED is
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from addons.config import Config

OUTPUT_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a stream says that cannot be written to: a full disk, for the most part."""
SHELLS = ("bash", "zsh", "fish", "powershell")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    try:
        _open_streams()
        return _main(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would hit the way out
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has enough, as `head` does
        _drop_output()
        return FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_FAULTS:
            raise
        _drop_output()
        print(f"mitmemory: the output cannot be written ({error.strerror})", file=sys.stderr)
        return FAILED


def _open_streams() -> None:
    """Python leaves out those that were closed by whoever started it, as `>&-` in a shell does."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end


def _drop_output() -> None:
    """Or the interpreter's last flush would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(given: list[str]) -> int:
    from addons.program import with_program  # noqa: PLC0415

    given, rest = _split(given)
    parser = make_parser()
    options = parser.parse_args(given)
    if rest and options.command not in {"run", "with"}:
        parser.error(f"{options.command} takes nothing after --")
    if options.command == "with" and not rest:
        parser.error(with_program("name the program after --, like `mitmemory with -- claude`"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    code = _dispatch(options, rest)
    sys.stdout.flush()
    return code


def _dispatch(options: argparse.Namespace, rest: list[str]) -> int:
    if options.command == "demo":  # it reads nothing of the person's, not even the configuration
        return demo(once=options.once)
    if options.command == "doctor":  # a configuration with faults is one of the things that it finds
        return doctor(options.config, as_json=options.json)
    from addons.config import ConfigError, load_config  # noqa: PLC0415

    commands: dict[str, Callable[[Config], int]] = {
        "run": lambda config: run(config, rest, inspector=not options.no_inspector),
        "check": check,
        "map": lambda config: show_map(config, as_json=options.json),
        "scan": lambda config: scan(config, options.files, as_json=options.json),
        "env": lambda config: env(config, options),
        "link": link,
        "with": lambda config: run_with(config, rest, client=options.client),
        "hmac": show_hmac,
        "rules": lambda config: rules_test(config, options),
        "ledger": lambda config: ledger(config, options),
        "recall": lambda config: recall(config, options),
        "compact": lambda config: compact(config, options),
        "mcp": lambda config: mcp(config, options),
    }
    try:
        return commands[options.command](load_config(options.config))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT


def make_parser() -> argparse.ArgumentParser:
    from importlib import metadata  # noqa: PLC0415

    from addons.program import with_program  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="mitmemory", description="See which of your own notes your AI tools send to which model."
    )
    parser.add_argument("--version", action="version", version=f"mitmemory {metadata.version('mitmemory')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    configured = argparse.ArgumentParser(add_help=False)
    configured.add_argument("--config", type=Path, metavar="FILE", help="the configuration (default: ./mitm.yaml)")
    client_help = "a client of the configuration, or claude-code, codex, gemini-cli"

    command = commands.add_parser("run", parents=[configured], help="start proxy, inspector and dashboard")
    command.add_argument("--no-inspector", action="store_true", help="without mitmweb")
    command.epilog = with_program(
        "What follows -- goes to mitmproxy, for example: `mitmemory run -- --set ssl_insecure=true`"
    )

    command = commands.add_parser("demo", help="show it on a sample vault, with a scripted model, without a key")
    command.add_argument("--once", action="store_true", help="play it once, print a summary, end")

    commands.add_parser("check", parents=[configured], help="validate the configuration")

    command = commands.add_parser("map", parents=[configured], help="load the notes and say what is there")
    command.add_argument("--json", action="store_true", help="the same JSON as GET api/memory")

    command = commands.add_parser("scan", parents=[configured], help="which notes are in these request bodies")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="raw body, HAR, or mitmproxy flow file")
    command.add_argument("--json", action="store_true", help="as JSON")

    command = commands.add_parser("env", parents=[configured], help="the variables that point a program at the proxy")
    command.add_argument("--shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    command.add_argument("--client", metavar="NAME", help=client_help)
    command.add_argument("--system", action="store_true", help="instead, commands that point this machine at it")

    command = commands.add_parser(
        "with",
        parents=[configured],
        help="run a program whose requests go through the proxy",
        usage="%(prog)s [-h] [--config FILE] [--client NAME] -- COMMAND ...",
    )
    command.add_argument("--client", metavar="NAME", help=client_help)
    command.epilog = with_program("For example: `mitmemory with -- claude`")

    commands.add_parser("link", parents=[configured], help="print a new link to the dashboard of the running suite")

    command = commands.add_parser("doctor", parents=[configured], help="check the set-up and say what to do")
    command.add_argument("--json", action="store_true", help="as JSON")

    commands.add_parser("hmac", parents=[configured], help="what stands for an API key in mitm.yaml; reads it unseen")

    command = commands.add_parser("rules", parents=[configured], help="try the rules on past requests")
    command.add_argument("action", choices=("test",), help="what to do with them")
    command.add_argument("--since", metavar="SINCE", help="what began since then, like 2w or 2026-03-04 (default: 30d)")
    command.add_argument("--json", action="store_true", help="as JSON")

    command = commands.add_parser("ledger", parents=[configured], help="check or export the log of past requests")
    command.add_argument("action", choices=("verify", "export", "head"), help="what to do with it")
    command.add_argument("--since", metavar="SINCE", help="export: what began since then, like 30d or 2026-03-04")
    command.add_argument("--format", choices=("csv", "jsonl"), metavar="FORMAT", help="export: csv or jsonl (default)")
    command.add_argument("--head", metavar="HASH", help="verify: what head printed once must still be in it")

    command = commands.add_parser("recall", parents=[configured], help="search a client's conversations")
    command.add_argument("client", metavar="CLIENT", help="a client of the configuration")
    command.add_argument("query", metavar="QUERY", help="what to look for, in any words")
    command.add_argument("--after", metavar="TIME", help="what was said since then, like 2d or 2026-03-04")
    command.add_argument("--before", metavar="TIME", help="what was said until then, like 6h or 2026-03-04")
    command.add_argument("--limit", type=int, metavar="N", help="how many results (default: search_top_k)")
    command.add_argument("--json", action="store_true", help="as JSON")

    command = commands.add_parser("compact", parents=[configured], help="summarise a client's conversations")
    command.add_argument("client", metavar="CLIENT", help="a client of the configuration")
    command.add_argument("session", metavar="SESSION", nargs="?", help="one session (default: all that are over)")
    command.add_argument("--again", action="store_true", help="also what is summarised already")

    command = commands.add_parser(
        "mcp", parents=[configured], help="an MCP server on stdin and stdout: one client's recall"
    )
    command.add_argument("--client", metavar="NAME", required=True, help="a client of the configuration")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Ours and, after `--`, mitmproxy's or a program's."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def run(config: Config, flags: Sequence[str], *, inspector: bool) -> int:
    from addons import run_command  # noqa: PLC0415

    return run_command.run(config, flags, inspector=inspector)


def demo(*, once: bool) -> int:
    from addons.demo.run import run_demo  # noqa: PLC0415

    return run_demo(once=once)


def check(config: Config) -> int:
    sources = len(config.memory.sources)
    print(f"{config.file or 'the default configuration'}: fine, {sources} source{'' if sources == 1 else 's'}")
    return OK


def show_map(config: Config, *, as_json: bool) -> int:
    from addons import notes_command  # noqa: PLC0415

    return notes_command.show_map(config, as_json=as_json)


def scan(config: Config, files: Sequence[Path], *, as_json: bool) -> int:
    from addons import notes_command  # noqa: PLC0415

    return notes_command.scan(config, files, as_json=as_json)


def env(config: Config, options: argparse.Namespace) -> int:
    from addons import env_command  # noqa: PLC0415

    return env_command.env(config, shell=options.shell, client=options.client, system=options.system)


def link(config: Config) -> int:
    from addons import link_command  # noqa: PLC0415

    return link_command.link(config)


def show_hmac(config: Config) -> int:
    from addons import env_command  # noqa: PLC0415

    return env_command.show_hmac(config)


def rules_test(config: Config, options: argparse.Namespace) -> int:
    from addons import rules_command  # noqa: PLC0415

    return rules_command.rules_test(config, since=options.since, as_json=options.json)


def ledger(config: Config, options: argparse.Namespace) -> int:
    from addons import ledger_command  # noqa: PLC0415

    return ledger_command.ledger(config, options.action, since=options.since, kind=options.format, noted=options.head)


def recall(config: Config, options: argparse.Namespace) -> int:
    from addons import recall_command  # noqa: PLC0415

    return recall_command.recall(
        config,
        options.client,
        options.query,
        after=options.after,
        before=options.before,
        limit=options.limit,
        as_json=options.json,
    )


def compact(config: Config, options: argparse.Namespace) -> int:
    from addons import compact_command  # noqa: PLC0415

    return compact_command.compact(config, options.client, options.session, again=options.again)


def mcp(config: Config, options: argparse.Namespace) -> int:
    from addons import mcp_command  # noqa: PLC0415

    return mcp_command.serve(config, options.client)


def run_with(config: Config, command: Sequence[str], *, client: str | None) -> int:
    from addons import with_command  # noqa: PLC0415

    return with_command.run_with(config, command, client=client)


def doctor(config: Path | None, *, as_json: bool) -> int:
    from addons import doctor  # noqa: PLC0415

    return doctor.doctor(config, as_json=as_json)
