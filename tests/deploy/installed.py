"""Nightjar as a user installs it: a wheel of what is tracked, in an environment of its own."""

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked(*paths: str) -> list[str]:
    """What git tracks of the checkout, links included."""
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and os.path.lexists(ROOT / name)]


def copy_tracked(folder: Path) -> Path:
    """A copy of what is tracked, as somebody has it who has just cloned the project."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def make_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a copy."""
    build = ["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", *build, source], check=True)
    (made,) = folder.iterdir()
    return made


def make_environment(folder: Path, wheel: Path, *, pip: bool = False) -> Path:
    """An environment that sees the packages of this one, but no checkout; returns its folder of packages."""
    venv.create(folder, with_pip=pip)
    packages = next((folder / "lib").glob("python3*/site-packages"))
    options = ["--quiet", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin" / "python", *options, wheel], check=True)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    return packages
