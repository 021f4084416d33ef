"""The installation's own authority: the files that clients are pointed at, made where they are not there yet."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import certifi

BASENAME = "mitmproxy"
CA = f"{BASENAME}-ca.pem"
"""The authority's certificate and its private key."""
CA_CERTIFICATE = f"{BASENAME}-ca-cert.pem"
BUNDLE = "ca-bundle.pem"
KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the files of an authority are. `folder` is mitmproxy's `confdir`."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The authority's certificate alone, for settings that add to the roots."""
        return self.folder / CA_CERTIFICATE

    @property
    def bundle(self) -> Path:
        """The public roots and that certificate, for settings that replace the roots."""
        return self.folder / BUNDLE


def certificates_of(state: Path) -> Certificates:
    return Certificates(state / "mitmproxy")


def ensure_certificates(state: Path, *, key_bits: int = KEY_BITS) -> Certificates:
    """The files, those that are missing made as the proxy itself makes them at its first start.

    Raises OSError where they can be neither read nor made, ValueError where the authority's file is damaged.
    """
    from mitmproxy.certs import CertStore  # noqa: PLC0415 - it takes a while to load, and a running suite does without

    certificates = certificates_of(state)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder alone
    certificates.folder.mkdir(mode=0o700, exist_ok=True)
    if not (certificates.folder / CA).exists():
        try:
            CertStore.create_store(certificates.folder, BASENAME, key_bits)
        except OSError:  # half of it would be a damaged one
            (certificates.folder / CA).unlink(missing_ok=True)
            raise
    CertStore.from_files(certificates.folder / CA, certificates.folder / f"{BASENAME}-dhparam.pem")
    write_bundle(certificates.folder)
    return certificates


def check_authority(certificates: Certificates) -> None:
    """Raises OSError and ValueError where the proxy could do nothing with the authority's file. It may be missing."""
    from cryptography import x509  # noqa: PLC0415 - it takes a while to load, and `mitmemory env` does without
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    try:
        pem = (certificates.folder / CA).read_bytes()
    except FileNotFoundError:
        return
    x509.load_pem_x509_certificates(pem)
    with suppress(TypeError):  # the key has a password, which is an option of mitmproxy's
        serialization.load_pem_private_key(pem, None)


def certificates_in(file: Path) -> set[bytes]:
    """Each certificate of a PEM file in DER. Some public roots break rules that a stricter reader would insist on.

    Raises OSError, and ValueError for what is no PEM.
    """
    blocks = re.findall(
        r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", file.read_text("latin-1"), re.DOTALL
    )
    return {ssl.PEM_cert_to_DER_cert(block) for block in blocks}


def write_bundle(confdir: Path) -> None:
    """`SSL_CERT_FILE` and its kin replace the public roots, so they need a file that holds both.

    A program may be reading it at this moment: it is replaced as a whole, and only when it changes.
    """
    certificate, bundle = confdir / CA_CERTIFICATE, confdir / BUNDLE
    if not certificate.exists():
        return
    wanted = Path(certifi.where()).read_bytes() + certificate.read_bytes()
    if bundle.exists() and bundle.read_bytes() == wanted:
        return
    unfinished = bundle.with_name(f"{BUNDLE}.{secrets.token_hex(4)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(wanted)
        unfinished.replace(bundle)
    except OSError:
        unfinished.unlink()
        raise
