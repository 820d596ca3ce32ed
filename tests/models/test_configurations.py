import pytest

from nightjar.models.configurations import CONFIGURATIONS, configuration
from nightjar.wire.errors import ConfigError, LocalProtocolError


def test_gboard_has_the_published_number_of_parameters() -> None:
    assert configuration("gboard").layout(10_000).size == 1_412_250


def test_tiny_takes_the_actual_vocabulary() -> None:
    layout = configuration("tiny").layout(900)
    assert [(t.name, t.shape) for t in layout.tensors] == [
        ("embedding", (900, 64)),
        ("input_kernel", (64, 384)),
        ("recurrent_kernel", (64, 384)),
        ("gate_bias", (384,)),
        ("projection", (128, 64)),
    ]


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_another_cell_has_about_as_many_parameters(name: str) -> None:
    shape = configuration(name)
    sizes = [each.layout(shape.max_vocabulary).size for each in (shape, configuration(shape.family))]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.002)


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'tiny' or 'gboard' or .*, got 'huge'"):
        configuration("huge")


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_a_vocabulary_that_does_not_fit_is_refused(name: str) -> None:
    for size in (0, 4, CONFIGURATIONS[name].max_vocabulary + 1):
        with pytest.raises(LocalProtocolError, match=f"got {size}"):
            configuration(name).layout(size)
