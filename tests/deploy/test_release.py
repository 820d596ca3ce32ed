"""A release is built, signed and checked by one command, and stops at what must not go out."""

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from nightjar.firmware_scripts.bundle.signing import make_key
from scripts.release import image_digests
from scripts.release.container_sbom import installed, locked
from scripts.release.image_digests import by_tag, digest, images, written
from tests.deploy.installed import ROOT, copy_tracked

DIGEST = "sha256:" + "ab" * 32
REFUSED = """
services:
  one: {image: postgres}
  two: {image: "postgres:16"}
  three: {image: docker.io/library/nginx:1.26@sha256:short}
  four: {image: registry.example.org:5000/nginx}
"""


def test_every_image_is_found_wherever_a_file_names_it(tmp_path):
    compose = tmp_path / "compose.yaml"
    compose.write_text(REFUSED + f"  five: {{image: nginx:1@{DIGEST}}}\n  six: {{image: nightjar}}\n")
    assert by_tag(images(compose)) == [
        "postgres",
        "postgres:16",
        "docker.io/library/nginx:1.26@sha256:short",
        "registry.example.org:5000/nginx",
    ]
    pods = tmp_path / "pods.yml"
    pods.write_text("a: 1\n---\nspec: {initContainers: [{image: busybox:1}], containers: [{image: redis:7}]}\n")
    assert images(pods) == ["busybox:1", "redis:7"]
    custom = tmp_path / "kustomization.yaml"
    custom.write_text(
        "images:\n- {name: postgres, newTag: '17'}\n- {name: nightjar, newName: here/nightjar, newTag: a}\n"
    )
    assert images(custom) == ["postgres:17"]
    container = tmp_path / "Containerfile"
    container.write_text(
        "# syntax=docker/dockerfile:1\n# FROM nothing\nARG BASE=debian:12\n"
        "FROM --platform=linux/arm64 \\\n  debian:12 AS made\n"
        "FROM scratch\nFROM made\nfrom ${BASE}\nCOPY --from=made /a /b\n"
        "COPY --from=docker.io/tool:2 /c /d\nCOPY --from=0 /e /f\nCOPY g h\n"
        "RUN --mount=type=cache,target=/x --mount=type=bind,from=other:3,target=/y make --from=no\n"
        "RUN --mount=from=made,target=/z true\n"
    )
    assert by_tag(images(container)) == ["docker/dockerfile:1", "debian:12", "${BASE}", "docker.io/tool:2", "other:3"]
    unit = tmp_path / "broker.container"
    unit.write_text("[Container]\n# Image=old:1\nImage=docker.io/broker:2\n")
    assert images(unit) == ["docker.io/broker:2"]


def test_digests_are_written_beside_the_tag_and_nothing_else_changes():
    text = "image: a/postgres:16 # postgres\nimage: postgres:16\nimage: 'postgres:16-alpine'\nFROM postgres:16 AS x\n"
    assert written(text, {"postgres:16": DIGEST}) == (
        f"image: a/postgres:16 # postgres\nimage: postgres:16@{DIGEST}\nimage: 'postgres:16-alpine'\n"
        f"FROM postgres:16@{DIGEST} AS x\n"
    )
    newer = "sha256:" + "cd" * 32
    assert written(f"image: a:1@{DIGEST}\n", {f"a:1@{DIGEST}": newer}) == f"image: a:1@{newer}\n"


def test_an_image_that_is_named_in_parts_is_not_passed_over(tmp_path, monkeypatch):
    custom = tmp_path / "kustomization.yaml"
    custom.write_text("images:\n- {name: postgres, newTag: '17'}\n")
    monkeypatch.setattr(image_digests, "digest", lambda _: DIGEST)
    done = CliRunner().invoke(image_digests.main, ["--folder", str(tmp_path)])
    assert done.exit_code == 1
    assert "names postgres:17 in parts: write the digests there by hand" in done.output


@pytest.fixture
def registry():
    """A registry of one image, whose manifest is for several machines."""
    manifest = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path in {"/v2/", "/v2/tool/manifests/1.0"}
            body = (
                b"{}" if self.path == "/v2/" else manifest if known else b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'
            )
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", INDEX if known else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        server.shutdown()


INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not installed: apt install skopeo")
def test_a_registry_is_asked_for_the_digest_of_a_tag(registry, tmp_path, monkeypatch):
    host, known = registry
    plain = tmp_path / ".config" / "containers" / "registries.conf"
    plain.parent.mkdir(parents=True)
    plain.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    assert digest(f"{host}/tool:1.0") == digest(f"{host}/tool:1.0@{DIGEST}") == known
    with pytest.raises(OSError, match=r"the digest of .*/tool:2\.0 is not known"):
        digest(f"{host}/tool:2.0")


def test_without_skopeo_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OSError, match="apt install skopeo"):
        digest("postgres:16")


def test_the_packages_of_the_container_are_those_of_the_locks():
    here, there = (dict(locked("coordinator", machine)) for machine in ("x86_64", "aarch64"))
    assert {"flask", "paho-mqtt", "numpy"} <= set(here) & set(there)
    assert all(here.values())
    assert [(each.name, each.architecture) for each in installed("libc6:amd64\t2.36\nadduser\t3.134\n")] == [
        ("libc6", "amd64"),
        ("adduser", ""),
    ]
    with pytest.raises(ValueError, match="expected lines of 'dpkg-query --show'"):
        installed("libc6 2.36\n")


class Checkout:
    """A clone that could be released, and a throwaway key."""

    def __init__(self, folder: Path) -> None:
        self.folder = copy_tracked(folder / "clone")
        self.key = folder / "owner.key"
        (self.folder / ".venv").symlink_to(ROOT / ".venv")
        log = self.folder / "CHANGELOG.md"
        log.write_text(log.read_text().replace(" (unreleased)", "", 1))
        for path in (self.folder / "deploy").rglob("*"):
            if path.is_file():
                path.write_text(written(path.read_text(), dict.fromkeys(by_tag(images(path)), DIGEST)))
        self.git("init", "--quiet")
        self.commit()
        make_key(self.key, self.key.with_suffix(".pub"))

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Release")

    def release(self, *options: str, audit: str = "true", key: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "AUDIT": audit}
        environment.pop("PYTHONPATH", None)
        command = ["scripts/release.sh", "--key", key or self.key, *options]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=800
        )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("release"))


def change(file, before, after):
    file.write_text(file.read_text().replace(before, after, 1))


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is not installed: apt install openssl"
)


@pytest.mark.slow
@pytest.mark.xdist_group("release")
@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("deploy/compose.yaml", f"@{DIGEST}", "", "expected each image by digest"),
        ("deploy/Containerfile", f"@{DIGEST}", "", "expected each image by digest"),
        ("CHANGELOG.md", "## 0.1.0", "## 0.1.0 (unreleased)", "no heading '## 0.1.0'"),
    ],
)
def test_what_must_not_go_out_is_refused(checkout, file, before, after, said):
    path = checkout.folder / file
    text = path.read_text()
    change(path, before, after)
    uncommitted = checkout.release().stderr
    checkout.commit()
    try:
        refused = checkout.release()
    finally:
        path.write_text(text)
        checkout.commit()
    found = ("not committed" in uncommitted, refused.returncode, said in refused.stderr)
    assert (found, (checkout.folder / "build").exists()) == ((True, 1, True), False)


@pytest.mark.slow
@pytest.mark.xdist_group("release")
def test_advisories_stop_a_release_and_so_does_silence_unless_its_owner_takes_it_on(checkout, tmp_path):
    program = tmp_path / "audit"
    program.write_text("#!/bin/sh\necho 'Found 1 known vulnerability in 1 package'\necho 'numpy 1.0 CVE-1'\nexit 1\n")
    program.chmod(0o755)
    for options in ((), ("--unaudited",)):
        found = checkout.release(*options, audit=str(program))
        assert (found.returncode, "CVE-1" in found.stdout) == (1, True)
        assert "there are advisories" in found.stderr
    # Of one lock an advisory is known, and the next ones cannot be audited: the advisory still stops.
    half = tmp_path / "half"
    half.write_text(f"#!/bin/sh\ncase $* in *agent.txt*) exec {program} ;; esac\nexit 1\n")
    half.chmod(0o755)
    assert "there are advisories" in checkout.release("--unaudited", audit=str(half)).stderr
    # pip-audit ends well where it knows nothing of a package, unless it is strict.
    lenient = tmp_path / "lenient"
    lenient.write_text("#!/bin/sh\ncase $* in *--strict*) exit 1 ;; esac\n")
    lenient.chmod(0o755)
    assert "the locks were not audited" in checkout.release(audit=str(lenient)).stderr
    silent = checkout.release(audit="false")
    assert (silent.returncode, "--unaudited" in silent.stderr) == (1, True)


@needs_openssl
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("release")
def test_a_release_is_built_signed_and_checked(checkout):
    made = checkout.release("--platform", "bookworm-x86_64", "--unaudited", audit="false")
    assert made.returncode == 0, made.stderr
    folder = checkout.folder / "build" / "release" / "0.1.0"
    names = {path.name for path in folder.iterdir()}
    assert {"SHA256SUMS", "SHA256SUMS.sig", "release.pub", "nightjar-container-0.1.0.cdx.json"} <= names
    assert {"nightjar-0.1.0.tar.gz", "nightjar-deploy-0.1.0.tar.gz", "nightjar-0.1.0-bookworm-x86_64.tar"} <= names
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == names - {"SHA256SUMS", "SHA256SUMS.sig"}
    sbom = json.loads((folder / "nightjar-container-0.1.0.cdx.json").read_text())
    purls = {each["purl"] for each in sbom["components"]}
    assert any(purl.startswith("pkg:oci/python@sha256") for purl in purls)
    assert "pkg:pypi/nightjar-federated@0.1.0" in purls
    with tarfile.open(folder / "nightjar-deploy-0.1.0.tar.gz") as archive:
        assert "nightjar-deploy-0.1.0/compose.yaml" in archive.getnames()
    (folder / "SHA256SUMS").write_bytes((folder / "SHA256SUMS").read_bytes() + b" ")
    check = ["-verify", "-rawin", "-pubin", "-inkey", checkout.key.with_suffix(".pub"), "-sigfile", "SHA256SUMS.sig"]
    verified = subprocess.run(["openssl", "pkeyutl", *check, "-in", "SHA256SUMS"], cwd=folder, check=False)
    assert verified.returncode != 0, "a changed list is not signed"


@needs_openssl
@pytest.mark.slow
@pytest.mark.xdist_group("release")
def test_the_two_halves_of_a_key_belong_together(checkout, tmp_path):
    other = tmp_path / "other.key"
    make_key(other, tmp_path / "unused.pub")
    shutil.copy(checkout.key.with_suffix(".pub"), tmp_path / "other.pub")
    refused = checkout.release(key=other)
    assert (refused.returncode, "is not the other half" in refused.stderr) == (1, True)
