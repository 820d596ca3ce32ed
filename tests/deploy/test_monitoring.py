"""Prometheus' rules and Grafana's dashboard: they load, each rule is tried both ways, they name only what there is."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from nightjar.coordinator.storage.disk_use import SCARCE_BYTES, SOON_DAYS

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
CASES = sorted(Path(__file__).parent.glob("alerts_*test.yml"))
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "nightjar.json").read_text())
GROUPS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
PAGE = (ROOT / "docs" / "metrics.md").read_text()


def promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documented():
    return set(re.findall(r"`(nightjar_\w+)", PAGE))


def named(text: str) -> set[str]:
    return set(re.findall(r"nightjar_\w+", text))


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.slow
def test_the_rules_raise_and_keep_quiet_as_their_cases_say():
    promtool("check", "rules", PROMETHEUS / "alerts.yml")
    assert promtool("test", "rules", *CASES).count("SUCCESS") == len(CASES)


def test_prometheus_takes_its_configuration(tmp_path):
    (tmp_path / "token").write_text("nj_x")
    for name in ("prometheus.yml", "alerts.yml"):
        text = (PROMETHEUS / name).read_text()
        (tmp_path / name).write_text(
            re.sub(r"credentials_file: [^}]+", f"credentials_file: {tmp_path / 'token'}", text)
        )
    promtool("check", "config", tmp_path / "prometheus.yml")


def test_alertmanager_takes_its_configuration(tmp_path):
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not installed: apt install prometheus-alertmanager")
    text = (PROMETHEUS / "alertmanager.yml").read_text()  # Debian's reads the address from no file yet
    path = tmp_path / "alertmanager.yml"
    path.write_text(text.replace("url_file: /etc/alertmanager/webhook-url", "url: https://chat.example/hook"))
    done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_rule_has_a_case_that_raises_it_and_one_that_does_not(rule):
    groups = [group for path in CASES for group in yaml.safe_load(path.read_text())["tests"]]
    cases = [case for group in groups for case in group["alert_rule_test"]]
    raised = {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == rule["alert"]}
    assert raised == {True, False}


def test_the_disk_raises_an_alert_when_the_pages_warn_of_it():
    """Proven before: /healthz, doctor and the overview warned of a disk that fills, and no alert ever came."""
    (rule,) = (rule for rule in RULES if rule["alert"] == "NightjarDiskFills")
    assert rule["expr"].split() == [
        *("nightjar_disk_full_in_days", "<", f"{SOON_DAYS:g}", "or"),
        *("nightjar_disk_free_bytes", "<", f"{SCARCE_BYTES / 1e9:g}e9"),
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_rule_says_what_to_do_and_how_soon(rule):
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"].keys() == {"summary", "remedy"}


def test_rules_and_dashboard_name_only_documented_metrics():
    used = named(json.dumps([rule["expr"] for rule in RULES])) | named(json.dumps(panels()))
    assert used - documented() == set()


def test_panels_have_a_title_a_number_and_room_of_their_own():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["title"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def lost(given, read, where=""):
    """Where a value is not in what was read of it."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from lost(value, read.get(key), f"{where}.{key}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, pair in enumerate(zip(given, read, strict=True)):
            yield from lost(*pair, f"{where}[{number}]")
    elif given != read:
        yield where


def test_grafanas_types_know_everything_that_the_dashboard_says():
    plugins.register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(DASHBOARD), cls=JSONEncoder))
    # Of annotations they know those of each data source; a title is Prometheus'.
    assert set(lost(DASHBOARD, read)) <= {".annotations.list[0].titleFormat"}


def test_prometheus_understands_the_dashboards_expressions(tmp_path):
    """As rules, because promtool of this age reads expressions in no other way."""
    texts = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$instance", ".*")} for number, text in enumerate(texts)
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yml")
