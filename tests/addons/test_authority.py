"""The authority as the dashboard shows it: made or not, until when, and whether the system trusts it."""

import sys
from pathlib import Path

import pytest
from cryptography import x509

from addons.authority import Authority, system_trusts
from addons.certificates import Certificates, certificates_in, ensure_certificates
from addons.program import with_program

linux = pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the roots of this system are in no file")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return ensure_certificates(tmp_path_factory.mktemp("state"), key_bits=1024)


def copied(made: Certificates, folder: Path) -> Certificates:
    certificates = Certificates(folder)
    for file in (made.certificate, made.bundle):
        (folder / file.name).write_bytes(file.read_bytes())
    return certificates


def test_there_is_none_yet(tmp_path: Path) -> None:
    assert Authority(Certificates(tmp_path)).to_json() == {
        "certificate": str(tmp_path / "mitmproxy-ca-cert.pem"),
        "bundle": str(tmp_path / "ca-bundle.pem"),
        "made": False,
        "validUntil": None,
        "systemTrusts": None,
        "problem": with_program("there is no authority yet: `mitmemory env` makes it"),
    }
    file = tmp_path / "work.yaml"
    problem = Authority(Certificates(tmp_path), config=file).to_json()["problem"]
    assert problem == with_program("there is no authority yet: `mitmemory env` makes it", file)


@linux
def test_it_is_made_and_the_system_does_not_trust_it(made: Certificates, tmp_path: Path) -> None:
    certificates = copied(made, tmp_path)
    roots = tmp_path / "roots.pem"
    roots.write_bytes(made.bundle.read_bytes().removesuffix(made.certificate.read_bytes()))
    authority = Authority(certificates, bundles=[tmp_path / "none.pem", roots])
    state = authority.to_json()
    assert (state["made"], state["systemTrusts"], state["problem"]) == (True, False, None)
    found = x509.load_pem_x509_certificate(certificates.certificate.read_bytes())
    assert state["validUntil"] == f"{found.not_valid_after_utc:%Y-%m-%dT%H:%M:%S}.000Z"

    roots.write_bytes(made.bundle.read_bytes())
    assert authority.to_json()["systemTrusts"] is True


@linux
def test_without_a_file_of_roots_it_cannot_be_told(made: Certificates, tmp_path: Path) -> None:
    own = certificates_in(made.certificate)
    assert system_trusts(own, [tmp_path / "none.pem"]) is None
    assert system_trusts(own, []) is None


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("mitmproxy-ca-cert.pem", b"", "mitmproxy-ca-cert.pem is damaged: remove"),
        ("mitmproxy-ca-cert.pem", b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", "is damaged"),
        ("ca-bundle.pem", b"", "ca-bundle.pem lacks this certificate: `mitmemory env` makes it anew"),
        ("ca-bundle.pem", None, "ca-bundle.pem is missing: `mitmemory env` makes it"),
    ],
)
def test_what_is_to_mend(made: Certificates, tmp_path: Path, file: str, content: bytes | None, problem: str) -> None:
    certificates = copied(made, tmp_path)
    authority = Authority(certificates, bundles=[])
    assert authority.to_json()["problem"] is None
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    state = authority.to_json()
    assert state["made"] is True
    assert with_program(problem) in state["problem"]


def test_it_is_looked_at_again_only_when_it_changed(
    made: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(copied(made, tmp_path), bundles=[])
    before = authority.to_json()
    monkeypatch.setattr(Authority, "_look", None)
    assert authority.to_json() == before
