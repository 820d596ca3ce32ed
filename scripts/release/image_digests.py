"""Container images by digest: ``python -m scripts.release.image_digests``, and ``--check`` for what is still a tag.

A tag is whatever its owner makes of it tomorrow, so what is deployed is named by digest, with the tag before it for the
reader: ``postgres:16-alpine@sha256:...``. A digest is the SHA-256 of the bytes that the registry gives for the tag, one
for all machines. skopeo fetches them.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
OURS = "nightjar"
"""The image that deploy/Containerfile makes; whoever deploys it pushes it to a registry of their own."""
_BY_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_INSTRUCTION = re.compile(r"\s*(FROM|COPY|RUN)\s+(.*)", re.IGNORECASE)
_SYNTAX = re.compile(r"#\s*syntax\s*=\s*(\S+)", re.IGNORECASE)
"""The image that reads a Containerfile, in its first lines."""
_QUADLET = re.compile(r"\s*Image\s*=\s*(\S+)")
"""The image of a unit of podman."""
_LONGEST_S = 120


def images(path: Path) -> list[str]:
    """Every image that a file of deploy/ names, in order, but for ours and stages of the file itself.

    Raises:
        ValueError: a YAML file is none.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".yaml", ".yml"}:
        try:
            named = [found for document in yaml.safe_load_all(text) for found in _in_yaml(document)]
        except yaml.YAMLError as error:
            msg = f"{path} is no YAML: {error}"
            raise ValueError(msg) from error
    elif "containerfile" in path.name.lower() or "dockerfile" in path.name.lower():
        named = list(_in_containerfile(text))
    elif path.suffix in {".container", ".image", ".volume"}:
        named = [found[1] for line in text.splitlines() if (found := _QUADLET.fullmatch(line))]
    else:
        named = []
    return list(dict.fromkeys(name for name in named if name != OURS))


def by_tag(names: Iterable[str]) -> list[str]:
    """Those that are not named by digest."""
    return [name for name in names if not _BY_DIGEST.fullmatch(name)]


def digest(image: str) -> str:
    """Ask the registry for the digest of a tag.

    Raises:
        OSError: skopeo is not here, or the registry did not answer with it.
    """
    tag, skopeo = image.partition("@")[0], shutil.which("skopeo")
    if skopeo is None:
        msg = "skopeo is not installed: apt install skopeo"
        raise OSError(msg)
    command = [skopeo, "inspect", "--raw", f"docker://{tag}"]
    try:
        asked = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired as error:
        msg = f"the registry of {tag} did not answer within {_LONGEST_S} s"
        raise OSError(msg) from error
    if asked.returncode or not asked.stdout:
        lines = asked.stderr.decode(errors="replace").strip().splitlines() or ["nothing came"]
        msg = f"the digest of {tag} is not known: {lines[-1]}"
        raise OSError(msg)
    return f"sha256:{hashlib.sha256(asked.stdout).hexdigest()}"


def written(text: str, digests: dict[str, str]) -> str:
    """The text of a file with each of these images by digest."""
    for image, found in digests.items():
        tag = image.partition("@")[0]
        text = re.sub(rf"(?<![\w./:@-]){re.escape(image)}(?![\w./:@-])", f"{tag}@{found}", text)
    return text


def _in_yaml(part: object) -> Iterator[str]:
    """Images of a compose or Kubernetes file; kustomize names them in parts."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "image" and isinstance(value, str):
                yield value
            elif key == "images" and isinstance(value, list):
                yield from (
                    _kustomized(e) for e in value if isinstance(e, dict) and len(e) > 1 and e.get("name") != OURS
                )
            else:
                yield from _in_yaml(value)
    elif isinstance(part, list):
        for each in part:
            yield from _in_yaml(each)


def _kustomized(entry: dict[str, object]) -> str:
    name = str(entry.get("newName", entry.get("name", "")))
    tag = f":{entry['newTag']}" if "newTag" in entry else ""
    return f"{name}{tag}@{entry['digest']}" if "digest" in entry else f"{name}{tag}"


def _in_containerfile(text: str) -> Iterator[str]:
    stages = {"scratch"}
    for line in text.replace("\\\n", " ").splitlines():
        if (syntax := _SYNTAX.fullmatch(line.strip())) is not None:
            yield syntax[1]
        found = _INSTRUCTION.fullmatch(line)
        if found is None:
            continue
        words = found[2].split()
        options = list(itertools.takewhile(lambda word: word.startswith("--"), words))
        flags, rest = dict(word[2:].partition("=")[::2] for word in options), words[len(options) :]
        if found[1].upper() == "FROM":
            if rest and rest[0] not in stages:
                yield rest[0]
            if len(rest) == 3 and rest[1].upper() == "AS":
                stages.add(rest[2])
        else:
            mounts = [word.partition("=")[2].split(",") for word in options if word.startswith("--mount=")]
            used = [part.removeprefix("from=") for mount in mounts for part in mount if part.startswith("from=")]
            used += [flags["from"]] if "from" in flags else []
            yield from (name for name in used if name not in stages and not name.isdecimal())


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Only name what is not by digest; exit 1 if there is any.")
@click.option("--renew", is_flag=True, help="Ask again for those that are by digest.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=DEPLOY)
def main(folder: Path, *, check: bool, renew: bool) -> None:
    """Write the digests, or check that they are there."""
    known: dict[str, str] = {}
    try:
        files = {path: images(path) for path in sorted(folder.rglob("*")) if path.is_file()}
        if check:
            tags = [f"{path}: {name}" for path, names in files.items() for name in by_tag(names)]
            if tags:
                msg = "expected each image by digest; run 'python -m scripts.release.image_digests' for\n" + "\n".join(
                    tags
                )
                raise click.ClickException(msg)
            return
        for path, names in files.items():
            wanted = names if renew else by_tag(names)
            for name in wanted:
                if name not in known:
                    known[name] = digest(name)
                    click.echo(f"{name.partition('@')[0]}  {known[name]}")
            if wanted:
                text = path.read_text(encoding="utf-8")
                path.write_text(written(text, {name: known[name] for name in wanted}), encoding="utf-8")
                if left := by_tag(images(path)):
                    msg = f"{path} names {', '.join(left)} in parts: write the digests there by hand"
                    raise click.ClickException(msg)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
