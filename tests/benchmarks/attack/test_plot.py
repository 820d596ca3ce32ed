"""The drawing of what the attacks got."""

import msgspec
from click.testing import CliRunner

from nightjar.benchmarks.attack.measure_harm import Harm
from nightjar.benchmarks.attack.measure_leaks import Leak
from tests.lazily import Lazy

plot = Lazy("nightjar.benchmarks.attack.plot")


def a_run(folder, seed):
    leaks = [
        Leak(attack="words-two-versions", defence=name, cohort=size, precision=0.9, recall=0.7, guess_recall=0.5)
        for name in ("default", "secure-sum")
        for size in (2, 5 + seed)
    ]
    leaks.append(Leak(attack="canary-two-versions", defence="default", cohort=2, exposure=3.0))
    harms = [
        Harm(
            attack=attack,
            share=share,
            defence="default",
            top1=0.1,
            backdoor_success=share,
            honest_refused=0.0,
            rounds=20,
            cohort=20,
        )
        for attack, share in (("stealthy", 0.1), ("stealthy", 0.3), ("sybils", 0.1), ("sign-flip", 0.1))
    ]
    path = folder / f"{seed}.json"
    found = {"default_defence": "default", "seed": seed, "confidentiality": leaks, "integrity": harms}
    path.write_bytes(msgspec.json.encode(found))
    return str(path)


def test_defences_and_the_backdoors_of_more_than_one_share_are_drawn_the_same_each_time(tmp_path):
    files = [a_run(tmp_path, seed) for seed in (7, 8)]
    drawn = []
    for number in range(2):
        out = tmp_path / f"{number}.svg"
        done = CliRunner().invoke(plot.main, [*files, "--out", str(out)])
        assert done.exit_code == 0, done.output
        drawn.append(out.read_text())
    assert drawn[0] == drawn[1]
    for name in ("default", "guess beside secure-sum", "stealthy, default, 20 rounds"):
        assert f"<!-- {name} -->" in drawn[0]
    assert "<!-- sybils" not in drawn[0]
    assert "<!-- sign-flip" not in drawn[0]
