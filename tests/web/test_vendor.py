"""What is vendored is what the manifest says, and its licences are there."""

import base64
import hashlib
import json
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "web" / "static" / "vendor"
LOCK = VENDOR.parents[1] / "package-lock.json"
BUNDLED = ("events", "graphology", "graphology-layout-forceatlas2", "graphology-utils", "sigma")


def test_every_bundle_has_the_hash_of_the_manifest() -> None:
    manifest = json.loads((VENDOR / "manifest.json").read_text("utf-8"))
    hashes = {
        file.name: "sha384-" + base64.b64encode(hashlib.sha384(file.read_bytes()).digest()).decode()
        for file in VENDOR.glob("*.js")
    }
    assert hashes == manifest
    assert set(manifest) == {"graph.js", "layout-worker.js"}


def test_the_licence_of_everything_bundled_is_shipped_at_the_locked_version() -> None:
    licences = (VENDOR / "LICENSES.txt").read_text("utf-8")
    locked = json.loads(LOCK.read_text("utf-8"))["packages"]
    for name in BUNDLED:
        assert f"{name} {locked[f'node_modules/{name}']['version']} (MIT)" in licences


def test_the_lock_file_names_no_address() -> None:
    assert "resolved" not in LOCK.read_text("utf-8")
    assert "://" not in LOCK.read_text("utf-8")
