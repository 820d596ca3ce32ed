import pytest

from nightjar.firmware_scripts.core.cards import parse_cards
from nightjar.wire.errors import ConfigError


def test_a_list_with_serials_and_columns_of_others():
    cards = parse_cards("\ufeffhostname,target,serial,room\nporch-01,/dev/sdb,12,porch\nporch-02,/dev/sdc,,\n")
    assert [(card.target, card.hostname, card.serial) for card in cards] == [
        ("/dev/sdb", "porch-01", "12"),
        ("/dev/sdc", "porch-02", ""),
    ]
    assert cards[0].others == {"room": "porch"}


def test_every_fault_is_told_at_once():
    text = "target,hostname\n,porch\n/dev/sdb,Porch_1\n/dev/sdb,porch\n/dev/sdc\n/dev/sdd,x,y\n"
    with pytest.raises(ConfigError) as caught:
        parse_cards(text)
    message = str(caught.value)
    for part in ("line 2: names no target", "line 3: 'Porch_1'", "line 4: target", "line 4: host", "line 5", "line 6"):
        assert part in message


@pytest.mark.parametrize(
    "text",
    ["", "target\n/dev/sdb\n", "hostname\nx\n", "target,hostname\n", "target,hostname,target\n/a,b,/c\n",
     "target,hostname\n" + "".join(f"/dev/{n},h{n}\n" for n in range(1001)), 'target,hostname\n"/dev/sdb,x\n'],
)  # fmt: skip
def test_a_list_that_cannot_be_used_is_refused(text):
    with pytest.raises(ConfigError):
        parse_cards(text)


@pytest.mark.parametrize("name", ["-a", "a-", "a.b", "ä", "a" * 64, "a b", ""])
def test_what_is_no_host_name_is_refused(name):
    with pytest.raises(ConfigError):
        parse_cards(f"target,hostname\n/dev/sdb,{name}\n")
