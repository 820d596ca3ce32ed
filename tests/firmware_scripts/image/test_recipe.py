import pytest

from nightjar.firmware_scripts.commands import image
from nightjar.firmware_scripts.image.making import boards, recipe_of
from nightjar.firmware_scripts.image.recipe import read_recipe
from nightjar.wire.errors import ConfigError
from tests.firmware_scripts.command_line import firmware

BOARD = b"about: b\narchitecture: arm64\nlayers: [low, high]\nkernel: arm64\nearly_modules: []\ncommand_line: ro\n"


def recipe(low, high, board=BOARD):
    layers = {"low": low.encode(), "high": high.encode()}
    return read_recipe("board", lambda _: board, layers.__getitem__)


@pytest.mark.parametrize("name", ["virt-arm64", "virt-arm64-trixie", "virt-amd64", "raspi3b"])
def test_our_boards_have_whatever_the_agent_needs(name):
    found = recipe_of(name)
    # tflite-runtime is linked with libstdc++ and does not say so; FAT cannot be mounted without its checker's package.
    assert {"python3", "libstdc++6", "openssl", "ca-certificates", "dosfstools", "passwd"} <= set(found.packages)
    assert "etc/systemd/system/nightjar-firstrun.service" in found.copies
    assert found.files["etc/machine-id"] == ""


def test_boards_are_listed_with_what_they_are():
    assert set(boards()) == {"virt-arm64", "virt-arm64-trixie", "virt-amd64", "raspi3b"}


def test_the_highest_layer_decides():
    made = recipe("about: a\npackages: [dash, bash]\nfiles: {x: low}", "about: a\npackages: [bash]\nfiles: {x: high}")
    assert made.packages == ("bash", "dash")
    assert made.files == {"x": "high"}


def test_what_systemd_shall_not_start_is_hidden_behind_nothing():
    made = recipe("about: a\nmasked_units: [a.timer]\nmasked_generators: [b]", "about: a\nmasked_units: [c.mount]")
    assert dict(made.links) == {
        "etc/systemd/system/a.timer": "/dev/null",
        "etc/systemd/system-generators/b": "/dev/null",
        "etc/systemd/system/c.mount": "/dev/null",
    }


def test_a_path_cannot_be_two_things():
    with pytest.raises(ConfigError, match="layer high: x is among its links"):
        recipe("about: a\nfiles: {x: low}", "about: a\nlinks: {x: y}")


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("about: a\npackages: ['; rm -rf /']", "no name of a Debian package"),
        ("about: a\nfiles: {../x: y}", "without '..'"),
        ("about: a\nfiles: {/etc/x: y}", "without a leading"),
        ("about: a\nmasked_units: [../../x]", "without '..'"),
        ("about: a\npackagse: []", "layer low"),
        ("about: [", "layer low"),
        ("- 1", "layer low"),
    ],
)
def test_a_layer_that_is_wrong_is_named(layer, said):
    with pytest.raises(ConfigError, match=said):
        recipe(layer, "about: a")


def test_a_root_file_system_is_known_by_all_that_goes_into_it():
    base = recipe("about: a\npackages: [bash]\nfiles: {x: y}", "about: a")
    key = base.rootfs_key("", "")
    # Our own files are laid over it later, so they do not make it anew.
    assert recipe("about: a\npackages: [bash]\nfiles: {x: z}", "about: a").rootfs_key("", "") == key
    others = [
        recipe("about: a\npackages: [bash, dash]", "about: a").rootfs_key("", ""),
        recipe("about: a\npackages: [bash]", "about: a", BOARD.replace(b"kernel: arm64", b"kernel: cloud")).rootfs_key(
            "", ""
        ),
        recipe("about: a\npackages: [bash]\nkernel_modules: [a.c]", "about: a").rootfs_key("", ""),
        base.rootfs_key("http://mirror", ""),
        base.rootfs_key("", "bash\t1\tarm64\n"),
    ]
    assert len({key, *others}) == 6


def test_a_board_that_is_not_there_names_those_that_are():
    with pytest.raises(ConfigError, match="raspi3b, virt-amd64, virt-arm64, virt-arm64-trixie"):
        recipe_of("toaster")


def test_the_image_goes_into_the_folder_where_the_command_runs(monkeypatch, tmp_path):
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NIGHTJAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "make_image", lambda _recipe, output, *_: asked.append(output) or raise_interrupted())
    assert firmware("image", "--board", "virt-amd64", "-o", "device.img").returncode == 130
    assert asked == [tmp_path / "device.img"], "some steps run in another folder"


def raise_interrupted():
    raise KeyboardInterrupt
