import gzip
import shutil
import subprocess

import pytest

from nightjar.firmware_scripts.image.early import early_archive, modules_in_order
from nightjar.wire.errors import ConfigError

DEPENDENCIES = "kernel/fs/ext4.ko: kernel/fs/jbd2.ko kernel/lib/crc16.ko\nkernel/fs/jbd2.ko:\nkernel/lib/crc16.ko:\n"


def test_what_a_module_needs_is_loaded_before_it_and_once():
    found = modules_in_order(["ext4", "jbd2"], DEPENDENCIES, "")
    assert found == ("kernel/lib/crc16.ko", "kernel/fs/jbd2.ko", "kernel/fs/ext4.ko")


def test_a_module_that_is_part_of_the_kernel_is_not_loaded():
    assert modules_in_order(["virtio-pci"], "", "kernel/drivers/virtio/virtio_pci.ko\n") == ()


def test_a_module_that_the_kernel_has_not_is_said():
    with pytest.raises(ConfigError, match="no module dwc3"):
        modules_in_order(["dwc3"], DEPENDENCIES, "")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed on this machine")
def test_another_program_reads_the_archive(tmp_path):
    modules = ["kernel/a.ko", "kernel/b.ko"]
    made = early_archive(b"ELF", modules, lambda path: path.encode())
    assert made == early_archive(b"ELF", modules, lambda path: path.encode())
    done = subprocess.run(
        ["cpio", "--extract", "--quiet"], input=gzip.decompress(made), cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "modules/order").read_text() == "a.ko b.ko"
    assert (tmp_path / "modules/b.ko").read_bytes() == b"kernel/b.ko"
    assert (tmp_path / "bin/sh").readlink().name == "busybox"
    assert (tmp_path / "init").stat().st_mode & 0o111
