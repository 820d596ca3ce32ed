import pytest

from nightjar.firmware_scripts.core.image_format import sector_sizes
from tests.firmware_scripts.command_line import partitioned

MBR = partitioned(bytes(8192))


def with_gpt(*sectors):
    image = bytearray(MBR)
    for sector in sectors:
        image[sector : sector + 8] = b"EFI PART"
    return bytes(image)


@pytest.mark.parametrize(
    ("head", "sizes"),
    [
        (MBR, {512}),
        (MBR[:512], {512}),
        (with_gpt(512), {512}),
        (with_gpt(4096), {4096}),
        (with_gpt(512, 4096), {512, 4096}),
        (bytes(8192), set()),
        (b"", set()),
    ],
)
def test_the_sectors_that_an_image_is_made_for_are_read_from_its_partition_table(head, sizes):
    assert sector_sizes(head) == sizes
