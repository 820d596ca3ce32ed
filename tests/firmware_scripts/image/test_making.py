import io
import tarfile

from nightjar.firmware_scripts.core.image_format import IMAGE_FILE, detect
from nightjar.firmware_scripts.image.debian import RootFileSystem
from nightjar.firmware_scripts.image.making import _boot_files, recipe_of


def test_an_image_says_which_bundle_fits_it(tmp_path):
    recipe = recipe_of("virt-amd64")
    modules = "".join(f"kernel/{name.replace('-', '_')}.ko\n" for name in recipe.board.early_modules)
    files = {
        "./boot/vmlinuz-6.1": "",
        "./usr/bin/busybox": "",
        "./usr/lib/modules/6.1/modules.dep": "",
        "./usr/lib/modules/6.1/modules.builtin": modules,
    }
    with tarfile.open(tmp_path / "rootfs.tar", "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    made = _boot_files(recipe, RootFileSystem(tmp_path / "rootfs.tar", (), cached=True))
    assert detect([], {IMAGE_FILE: made[IMAGE_FILE].decode()}).platform == "bookworm-x86_64"
