"""What the pages say, without a browser."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.access import Role
from nightjar.coordinator.learning.device_metrics import keystrokes, merged, tally
from nightjar.coordinator.rounds.labelling import Labelling, LabelRule
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.storage.reading import Reading
from nightjar.coordinator.versions.quality_gate import Example, VersionMetrics
from nightjar.wire.errors import UnavailableError
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.storage.test_baselines import KEPT
from tests.coordinator.web.pages.test_refused import Forms
from tests.coordinator.web.test_app import A, B, Site
from tests.coordinator.web.test_login import OURS, log_in
from tests.coordinator.web.test_login import service as service


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.database.close()


def test_the_empty_page_says_what_to_do(site):
    page = site.get("/").text
    assert "No phone has been here yet" in page
    assert "nightjar-agent run --config agent.toml" in page
    assert "Only this machine reaches" in page
    assert page.count("<svg") == 1, "the bird"


def test_the_full_page_shows_the_curve_the_baseline_and_what_was_lost(site):
    site.fill()
    page = site.get("/").text
    assert 'role="img"' in page
    assert "trigram 19.0 %" in page
    assert "dropped out: in use" in page
    assert "report refused: norm" in page
    assert "round abandoned: nobody came" in page


def test_without_held_out_text_the_pages_show_what_devices_measured(service):
    one = tally([LocalEvaluation(100, 20, 40, 25, 45, 5.0, 4.5)])
    with service.database.transaction() as tx:
        tx.save_version(replace(tx.version(0), metrics=None))
    token = service.token(Role.VIEWER)
    before = service.ask("GET", "/", token).text
    assert "on its way" not in before
    assert "Nothing was measured" in before
    with service.database.transaction() as tx:
        tx.save_federated(0, one)
    assert "20.0 %</b></a> top-1 recall on devices" in service.ask("GET", "/", token).text
    assert 'data-label="On devices" class="number">20.0 %</td>' in service.ask("GET", "/models", token).text
    assert "Devices measured <b>20.0 %</b> top-1 recall" in service.ask("GET", "/models/0", token).text


def test_the_overview_shows_first_what_keyboards_save_on_devices_and_the_text_as_what_it_is(site):
    site.fill()
    with site.repository.transaction() as tx:
        tx.save_version(replace(tx.version(0), metrics=VersionMetrics(0.2, 0.3, 3.0), task="keyboard"))
        for version, saved in ((0, 58), (1, 62)):
            found = keystrokes([KeyboardEvaluation(200, saved, 0, 58), KeyboardEvaluation(200, saved + 2, 0, 60)])
            tx.save_federated(version, merged(tally([LocalEvaluation(100, 20, 40, 25, 45, 5.0, 4.5)]), found))
        record = tx.task("keyboard")
        tx.save_task(replace(record, state=replace(record.state, without_gain=25)))
    page = site.get("/").text
    learning = page[page.index("Is it learning?") : page.index("What does it cost?")]
    places = [
        "The last 25 rounds gained nothing",
        "31.5 ± 0.5 %</b></a> of the keystrokes saved",
        "top-1 recall on devices",
        "+2.0 ± 0.0",
        "On text that nobody of the fleet typed",
        "10.0 points below",
    ]
    assert [learning.index(part) for part in places] == sorted(learning.index(part) for part in places)
    assert "31.5 ± 0.5 %" in site.get("/models").text
    one = site.get("/models/1").text
    assert "31.5 ± 0.5 %</b> of the keystrokes saved" in one
    assert "+2.0 ± 0.0 points beside" in one


@pytest.mark.parametrize("path", ["/", "/rounds", "/rounds/2", "/devices", "/devices/a", "/tasks", "/models"])
def test_what_devices_say_is_shown_as_text_and_never_as_markup(site, path):
    site.fill()
    with site.repository.transaction() as tx:
        tx.save_lease(replace(tx.lease(A), state="<script>s</script>", runtime="<script>r</script>"))
    page = site.get(path).text
    assert "<script>x" not in page
    assert "<script>s" not in page
    assert "<script>r" not in page
    assert "<b>nobody" not in page


def test_what_devices_do_and_why_they_dropped_out_are_words(site):
    site.fill()
    with site.repository.transaction() as tx:
        tx.save_lease(replace(tx.lease(A), state="checked-in"))
    for path in ("/devices", "/devices/a"):
        assert "waiting for a round" in site.get(path).text
    assert 'dropped: in use <span class="quiet">before: unplugged</span>' in site.get("/rounds/3").text


@pytest.mark.parametrize("path", ["/", "/rounds", "/devices", "/models", "/login", "/nothing"])
def test_a_page_needs_nothing_from_elsewhere_and_nothing_written_into_it(site, path):
    site.fill()
    answer = site.get(path)
    page = answer.text
    sources = [part.split('"')[0] for attribute in ('src="', 'href="') for part in page.split(attribute)[1:]]
    assert [source for source in sources if not source.startswith(("/", "#"))] == []
    assert "style=" not in page
    assert "<style" not in page
    assert " on" + "click=" not in page
    assert "Set-Cookie" not in answer.headers
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    for name in ("nightjar.css", "live.js", "icon.svg"):
        assert site.get(f"/static/{name}").status_code == 200


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/rounds/99", 404, "There is no round 99."),
        ("/rounds/99999999999999999999", 404, "There is no round"),
        ("/devices/nobody", 404, "There is no device nobody"),
        ("/devices/%00", 404, ""),
        ("/models/99", 404, "There is no version 99."),
        ("/tasks/nothing", 404, "There is no task nothing."),
        ("/?task=nothing", 404, "There is no task nothing."),
        ("/nothing", 404, "There is nothing here"),
        ("/rounds?before=x", 422, "That cannot be"),
        ("/rounds?phase=x", 422, "That cannot be"),
        ("/devices?version=99", 404, "There is no version 99."),
        ("/devices?seen=x&after=a", 422, "That cannot be"),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(site, path, code, said):
    answer = site.get(path)
    assert answer.status_code == code
    assert answer.content_type.startswith("text/html")
    assert said in answer.text
    assert "To the overview" in answer.text


def test_a_database_that_cannot_be_read_is_said_and_the_page_looks_again(site, monkeypatch):
    def fail():
        raise UnavailableError("locked by /secret/path")

    monkeypatch.setattr(type(site.database), "transaction", lambda _self: fail())
    answer = site.get("/rounds")
    assert answer.status_code == 503
    assert "looks again by itself" in answer.text
    assert "/secret/path" not in answer.text


def test_a_defect_of_ours_is_a_page_too(site, monkeypatch):
    monkeypatch.setattr(Reading, "recent_rounds", lambda *_: 1 / 0)
    answer = site.get("/rounds")
    assert (answer.status_code, "A defect of ours" in answer.text) == (500, True)


def test_a_search_is_kept_from_page_to_page(site):
    with site.repository.transaction() as tx:
        for number in range(60):
            tx.save_lease(Lease(device=DeviceId(f"d{number:02}"), presence=Presence.PRESENT, state="training"))
    page = site.get("/devices?name=d&doing=at+work").text
    assert page.count('class="dot') == 50
    assert "name=d&amp;doing=at+work" in page


def test_a_button_changes_what_it_says_and_the_change_is_in_the_audit_log(service):
    browser, _ = log_in(service)
    for path, data in (
        ("/devices/a/block", {"reason": "odd <b>"}),
        ("/devices/a/unblock", {}),
        ("/tasks/keyboard/pause", {"reason": "night"}),
        ("/tasks/keyboard/resume", {}),
    ):
        answer = browser.post(path, data=data, headers=OURS)
        assert answer.status_code == 303, answer.text
    log = browser.get("/audit").text
    for action in ("block device", "unblock device", "pause task", "resume task"):
        assert action in log
    assert "odd &lt;b&gt;" in log
    refused = browser.post("/devices/a/block", data={"reason": ""}, headers=OURS)
    assert refused.status_code == 422


def test_a_task_is_made_on_its_page_and_stands_there(service):
    browser, _ = log_in(service)
    wanted = {"name": "second", "kind": "train", "rounds": "3", "goal": "2", "minimum": "2"}
    made = browser.post("/tasks", data=wanted, headers=OURS)
    assert (made.status_code, made.headers["Location"]) == (303, "/tasks/second")
    for data in service.world.artifacts.blobs.values():
        service.artifacts.put(data)
    assert "second" in browser.get("/tasks").text
    models = browser.get("/models").text
    assert '<a href="/tasks/second">second</a>' in models
    assert '<span class="quiet">from</span> <a href="/models/0">version 0</a>' in models
    assert 'from <a href="/models/0">version 0</a>, for task <a href="/tasks/second">' in browser.get("/models/1").text
    assert browser.get("/rounds?task=second").status_code == 200
    assert "of task" in browser.get("/?task=second").text
    again = browser.post("/tasks", data=wanted, headers=OURS)
    assert (again.status_code, "second" in again.text) == (409, True)
    assert browser.post("/tasks", data={**wanted, "goal": "0"}, headers=OURS).status_code == 422


def test_a_new_task_is_proposed_with_the_goal_and_the_minimum_of_the_configuration(service):
    browser, _ = log_in(service)
    task = service.ports.config.task
    proposed = Forms(browser.get("/tasks").text).found["/tasks"]
    assert (proposed["goal"], proposed["minimum"]) == (str(task.goal), str(task.minimum)) != ("5", "2")


def test_the_page_of_a_task_counts_the_devices_that_cannot_take_part_in_it(service):
    browser, _ = log_in(service)
    with service.database.transaction() as tx:
        for device, offered in ((A, "classification"), (B, "keyboard:labels-missing")):
            tx.save_lease(Lease(device=device, task_types=offered, state="ineligible"))
    page = browser.get("/tasks/keyboard").text
    assert "<dd>keyboard: top-1 recall, top-3 recall</dd>" in page
    assert "1: it has no plug-in for the task type keyboard" in page
    assert "1: its examples cannot be used: labels-missing" in page


def test_the_devices_page_tells_which_labels_are_given_by_rule(service):
    browser, _ = log_in(service)
    assert "Labels by rule" not in browser.get("/devices").text
    with service.database.transaction() as tx:
        tx.save_labelling(Labelling(rules=(LabelRule(label="small", maximum_memory_mb=1024),)))
    page = browser.get("/devices").text
    assert '<a class="badge" href="/devices?label=small">small</a> at most 1024 MB of memory' in page


def test_a_blocked_device_is_said_with_its_reason(service):
    browser, _ = log_in(service, Role.OPERATOR)
    browser.post("/devices/a/block", data={"reason": "<odd>"}, headers=OURS)
    assert 'title="&lt;odd&gt;">blocked' in browser.get("/devices").text
    assert "Let it in again" in browser.get("/devices/a").text


def test_what_was_measured_in_one_place_is_drawn_and_says_what_it_is(site):
    site.fill()
    with site.database.transaction() as tx:
        tx.save_held_out_text(KEPT.measured.text_sha256)
        tx.save_baselines(KEPT)
    overview, version = site.get("/").text, site.get("/models/1").text
    for page in (overview, version):
        assert "trained in one place on 12,345 messages of public.tsv" in page
    assert "central 22.0 %" in overview
    assert '<th scope="row">central</th><td class="number">22.0 %</td><td class="number">34.0 %</td>' in version
    [trigram, central] = site.get("/api/v1/baselines").json["items"]
    assert (trigram["label"], trigram["loss"], central["label"], central["loss"]) == ("trigram", None, "central", 4.5)


def test_what_a_version_suggests_stands_beside_what_the_first_suggested(site):
    site.fill()
    places = [("see you", "soon", ("the", "a", "to")), ("on <my>", "way", ("own", "phone", "head"))]
    with site.database.transaction() as tx:
        metrics = VersionMetrics(0.05, 0.12, 6.0, examples=tuple(Example(*place) for place in places))
        tx.save_version(replace(tx.version(0), metrics=metrics))
        learned = (Example("see you", "soon", ("soon", "a", "there")), Example("new text", "here", ("x", "y", "here")))
        tx.save_version(replace(tx.version(1), metrics=replace(metrics, examples=learned)))
    now, first = site.get("/models/1").text, site.get("/models/0").text
    assert '<th scope="row">see you <b>soon</b></th><td>the · a · to</td><td><b>soon</b> · a · there</td>' in now
    assert '<th scope="row">new text <b>here</b></th><td>-</td><td>x · y · <b>here</b></td>' in now
    assert "on &lt;my&gt; <b>way</b>" in first
    assert "suggested</th>" not in first, "nothing stands beside the first"


def test_a_viewer_is_shown_no_button(service):
    browser, _ = log_in(service, Role.VIEWER)
    for path in ("/devices/a", "/tasks/keyboard"):
        page = browser.get(path).text
        assert page.count("<form") == 1, "only the one that logs out"


def test_a_token_is_shown_once_and_never_logged(service, capsys):
    browser, _ = log_in(service, Role.ADMIN)
    made = browser.post("/tokens", data={"name": "anna", "role": "viewer", "days": "2"}, headers=OURS)
    characters = made.text.split('class="token">')[1].split("<")[0]
    assert made.status_code == 201
    assert characters not in browser.get("/tokens").text
    assert characters not in browser.get("/audit").text
    assert browser.post("/tokens", data={"name": "anna", "role": "viewer"}, headers=OURS).status_code == 409
    assert browser.post("/tokens/anna/revoke", data={"sure": "yes"}, headers=OURS).status_code == 303
    assert browser.post("/tokens/anna/revoke", data={"sure": "yes"}, headers=OURS).status_code == 404
    output = capsys.readouterr()
    assert characters not in output.out + output.err


def test_reports_of_a_device_are_those_of_the_rounds_it_remembers(site):
    site.fill()
    with site.repository.transaction() as tx:
        tx.save_lease(replace(tx.lease(B), last_round=1, rounds_counted=1))
    page = site.get("/devices/b").text
    assert 'href="/rounds/1"' in page
    assert "300 B" in page
