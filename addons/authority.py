"""The installation's own authority as the dashboard shows it: is it made, where, how long, and who trusts it."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from addons.certificates import Certificates, certificates_in
from addons.program import with_program
from memory.exchange import timestamp

SYSTEM_BUNDLES = tuple(
    map(
        Path,
        (
            "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
            "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
            "/etc/ssl/ca-bundle.pem",  # openSUSE
            "/etc/ssl/cert.pem",  # Alpine
        ),
    )
)
"""Where the roots that the system trusts are, all of them in one file."""

type Stamp = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class State:
    """`made`: the certificate is there. `trusted`: by the system; None: it cannot be told. `problem`: what to mend."""

    made: bool
    valid_until: str | None = None
    trusted: bool | None = None
    problem: str | None = None


class Authority:
    """Looks at the files when they changed, and remembers what it saw."""

    def __init__(
        self, certificates: Certificates, *, bundles: Sequence[Path] = SYSTEM_BUNDLES, config: Path | None = None
    ) -> None:
        """`config` is the file that commands have to name."""
        self.certificates = certificates
        self._config = config
        self._bundles = bundles
        self._seen: tuple[Stamp, State] | None = None

    def to_json(self) -> dict[str, Any]:
        """`authority` of `GET api/status`."""
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        stamp = tuple(_stamp(path) for path in (certificate, bundle, *self._bundles))
        if self._seen is None or self._seen[0] != stamp:
            self._seen = stamp, self._look()
        state = self._seen[1]
        return {
            "certificate": str(certificate),
            "bundle": str(bundle),
            "made": state.made,
            "validUntil": state.valid_until,
            "systemTrusts": state.trusted,
            "problem": state.problem and with_program(state.problem, self._config),
        }

    def _look(self) -> State:
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        try:
            own = certificates_in(certificate)
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
        except FileNotFoundError:
            return State(made=False, problem="there is no authority yet: `mitmemory env` makes it")
        except OSError as error:
            return State(made=True, problem=f"{certificate} cannot be read ({error.strerror})")
        except ValueError:
            folder = self.certificates.folder
            return State(made=True, problem=f"{certificate} is damaged: remove {folder}, and start mitmemory again")
        problem = None
        try:
            if not own <= certificates_in(bundle):
                problem = f"{bundle} lacks this certificate: `mitmemory env` makes it anew"
        except FileNotFoundError:
            problem = f"{bundle} is missing: `mitmemory env` makes it"
        except (OSError, ValueError):
            problem = f"{bundle} cannot be read: remove it, and `mitmemory env` makes it anew"
        return State(
            made=True,
            valid_until=timestamp(found.not_valid_after_utc),
            trusted=system_trusts(own, self._bundles),
            problem=problem,
        )


def system_trusts(own: set[bytes], bundles: Sequence[Path] = SYSTEM_BUNDLES) -> bool | None:
    """Whether these certificates (DER) are among the roots of the system; None: there is no way to tell from here.

    macOS keeps its roots in a keychain, which only its own programs read.
    """
    if sys.platform == "win32":
        return own <= {der for der, _, _ in ssl.enum_certificates("ROOT")}
    if sys.platform == "darwin":
        return None
    for bundle in bundles:
        try:
            return own <= certificates_in(bundle)
        except (OSError, ValueError):
            continue
    return None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
