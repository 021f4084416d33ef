"""The commands that point a whole machine at the proxy, and those that undo it. Pure: they are printed, never run.

Only HTTPS is sent through the proxy: that is what model providers speak.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from addons.config_values import Address


def system_commands(platform: str, proxy: Address, certificate: Path, thumbprint: str) -> str:
    """For `platform` as in `sys.platform`. `thumbprint` is the certificate's SHA-1, in hex."""
    match platform:
        case "darwin":
            return _macos(proxy, certificate, thumbprint)
        case "win32":
            return _windows(proxy, certificate, thumbprint)
        case _:
            return _gnome(proxy, certificate)


def _macos(proxy: Address, certificate: Path, thumbprint: str) -> str:
    file = shlex.quote(str(certificate))
    return f"""\
# Set (macOS). `networksetup -listallnetworkservices` lists the names that may stand for Wi-Fi.
SERVICE='Wi-Fi'
networksetup -setsecurewebproxy "$SERVICE" {proxy.host} {proxy.port}
networksetup -setproxybypassdomains "$SERVICE" localhost 127.0.0.1 ::1 '*.local'
security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {file}

# Unset
SERVICE='Wi-Fi'
networksetup -setsecurewebproxystate "$SERVICE" off
security remove-trusted-cert {file}
security delete-certificate -Z {thumbprint} ~/Library/Keychains/login.keychain-db
"""


def _windows(proxy: Address, certificate: Path, thumbprint: str) -> str:
    settings = r"'HKCU:\Software\Microsoft\Windows\CurrentVersion\Internet Settings'"
    file = str(certificate).replace("'", "''")
    return f"""\
# Set (Windows, in PowerShell)
$Settings = {settings}
Set-ItemProperty $Settings ProxyServer 'https={proxy}'
Set-ItemProperty $Settings ProxyOverride 'localhost;127.*;[::1];<local>'
Set-ItemProperty $Settings ProxyEnable 1
certutil -user -addstore Root '{file}'

# Unset
$Settings = {settings}
Set-ItemProperty $Settings ProxyEnable 0
certutil -user -delstore Root {thumbprint}
"""


def _gnome(proxy: Address, certificate: Path) -> str:
    file = shlex.quote(str(certificate))
    return f"""\
# Set (GNOME)
gsettings set org.gnome.system.proxy.https host '{proxy.host}'
gsettings set org.gnome.system.proxy.https port {proxy.port}
gsettings set org.gnome.system.proxy ignore-hosts "['localhost', '127.0.0.0/8', '::1']"
gsettings set org.gnome.system.proxy mode 'manual'
# Debian, Ubuntu:
sudo cp {file} /usr/local/share/ca-certificates/mitmemory.crt && sudo update-ca-certificates
# Fedora, Arch:
sudo trust anchor --store {file}

# Unset
gsettings set org.gnome.system.proxy mode 'none'
gsettings reset org.gnome.system.proxy.https host
gsettings reset org.gnome.system.proxy.https port
gsettings reset org.gnome.system.proxy ignore-hosts
# Debian, Ubuntu:
sudo rm /usr/local/share/ca-certificates/mitmemory.crt && sudo update-ca-certificates --fresh
# Fedora, Arch:
sudo trust anchor --remove {file}
"""
