"""What pyproject.toml cannot say about building."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist


class BuildFromNothing(build_py):
    """Leaves out what an earlier build left in the folder ``build``: a module that is gone would be packed again."""

    def run(self) -> None:
        """Build."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class SdistWithLinks(sdist):
    """A source distribution with the links of ``nightjar/``, not with second copies of everything."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make the tree, then the links."""
        super().make_release_tree(base_dir, files)
        for link in sorted(Path("nightjar").iterdir()):
            if link.is_symlink():
                shutil.rmtree(Path(base_dir) / link, ignore_errors=True)  # a license that is named by its path there
                (Path(base_dir) / link).symlink_to(link.readlink())


setup(cmdclass={"build_py": BuildFromNothing, "sdist": SdistWithLinks})
