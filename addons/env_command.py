"""`mitmemory env` and `mitmemory hmac`: what a person pastes. Both work without a running suite."""

from __future__ import annotations

import getpass
import hashlib
import os
import ssl
import sys
from pathlib import Path

from addons.certificates import KEY_BITS, Certificates, ensure_certificates
from addons.client_states import PROGRAMS, mcp_command, remembers_inside
from addons.clients import hmac_of
from addons.config import Config, config_to_name
from addons.config_values import parse_listen
from addons.env import SHELLS, ClientError, Shell, program_of, render, variables, way_for
from addons.env_system import system_commands
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.own_key import load_or_make_key
from addons.presence import Presence, config_name, running_suites
from addons.program import command_line, quoted
from addons.state_folder import unusable
from web.mcp_lines import stdio_lines


def env(config: Config, *, shell: Shell | None, client: str | None, system: bool) -> int:
    """Print the variables, or with `system` the commands for the whole machine: on stdout, and nothing else there."""
    if config.state is None:
        return _wrong("state is null, so each start makes an authority of its own: take the lines that it prints")
    suite = suite_of(config, config.state)
    listen = config.proxy.listen
    if suite is not None:
        listen = parse_listen(suite.proxy)
    elif not listen.port:
        return _wrong("proxy.listen has port 0, another one with each start: start mitmemory first, or name a port")
    try:
        way = way_for(config, str(listen), client)
        certificates = Certificates(Path(suite.certificates)) if suite else own_certificates(config, config.state)
    except ClientError as error:
        return _wrong(str(error))
    except OSError as error:
        return _failed(unusable(error, config.state))
    except ValueError:
        return _failed(f"the authority in {config.state / 'mitmproxy'} is damaged: remove that folder for a new one")
    if system:
        print(system_commands(sys.platform, listen, certificates.certificate, thumbprint(certificates)), end="")
        return OK
    chosen = shell or _shell_of(os.environ.get("SHELL", ""))
    print(render(chosen, variables(way, certificates, os.environ)), end="")
    print("".join(f"# {line}\n" for line in memory_lines(config, client)), end="")
    if sys.stdout.isatty():
        print(_HOW[chosen].format(_typed(config, shell, client)), file=sys.stderr)
    return OK


def memory_lines(config: Config, client: str | None) -> list[str]:
    """How a client, by its name or slug, meets its memory; none for a client that has none."""
    entry = next((one for one in config.clients if client in {one.name, one.slug}), None)
    if entry is None or not entry.memory_enabled:
        return []
    if remembers_inside(config, entry.slug):
        return ["Its memory comes inside its conversations: nothing more need be set up."]
    program = PROGRAMS.get(program_of(entry) or "")
    lines = [line for line in stdio_lines(mcp_command(entry.slug, config.file)) if program in {None, line.program}]
    return [
        "Its memory as an MCP server, which asks the suite that runs:",
        *(part for line in lines for part in ("", f"{line.program}, {line.where}:", *line.text.splitlines())),
        "",
        "The same over HTTP needs a token, which the Setup page makes.",
    ]


def show_hmac(config: Config) -> int:
    """Print what stands for an API key in the configuration. The key is typed unseen, or is the first line of stdin."""
    if config.state is None:
        return _wrong("state is null, and the key that an HMAC is made with is kept there: set state to a folder")
    try:
        secret = load_or_make_key(config.state)
    except OSError as error:
        return _failed(unusable(error, config.state))
    except ValueError as error:
        return _failed(str(error))
    try:
        key = getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:
        key = ""
    if not key.strip():
        return _wrong("no API key came: type it, or send it to stdin")
    print(hmac_of(secret, key.strip()))
    return OK


def suite_of(config: Config, state: Path) -> Presence | None:
    """The suite of this configuration that runs: where it listens is where ours would, or its file is ours."""
    listen = config.proxy.listen
    for suite in running_suites(state):
        if suite.proxy == str(listen) or (not listen.port and suite.config == config_name(config.file)):
            return suite
    return None


def own_certificates(config: Config, state: Path) -> Certificates:
    """Those of the state directory, made if they are not there. Raises OSError and ValueError."""
    bits = config.proxy.mitmproxy.get("key_size", KEY_BITS)
    return ensure_certificates(state, key_bits=bits if isinstance(bits, int) else KEY_BITS)


def thumbprint(certificates: Certificates) -> str:
    """The certificate's SHA-1, by which macOS and Windows name it."""
    der = ssl.PEM_cert_to_DER_cert(certificates.certificate.read_text("ascii"))
    return hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()


def _shell_of(path: str) -> Shell:
    """The shell that a person uses, as far as it is known."""
    if os.name == "nt":
        return "powershell"
    name = Path(path).name
    return next((shell for shell in SHELLS if name in {shell, {"powershell": "pwsh"}.get(shell)}), "bash")


def _typed(config: Config, shell: Shell | None, client: str | None) -> str:
    """The command as it was given, so far as it says what is to be set."""
    given = f" --shell {shell}" if shell else ""
    if client:
        given += f" --client {quoted(client)}"
    return command_line(f"env{given}", config_to_name(config.file))


_HOW: dict[Shell, str] = {
    "bash": '# Set them with: eval "$({})"',
    "zsh": '# Set them with: eval "$({})"',
    "fish": "# Set them with: {} | source",
    "powershell": "# Set them with: {} | Out-String | Invoke-Expression",
}


def _wrong(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return WRONG_INPUT


def _failed(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return FAILED
