"""Several tasks in the real service with a real broker, made and stopped by the command line."""

import getpass
import json
import subprocess
import sys

import numpy as np
import pytest

from nightjar.wire.messages import Assignment, Rejection, RejectionReason, Verdict, Work
from tests.brokers import KINDS
from tests.coordinator.fake_device import PATIENCE_S, devices, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.coordinator.test_service import ROOT, Service

pytestmark = pytest.mark.broker


def ask(service: Service, *arguments: object):
    command = [sys.executable, "-m", "nightjar.coordinator", *map(str, arguments), "--json"]
    command += ["--config", str(service.folder / "coordinator.toml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tasks(service: Service) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(service.fetch("/api/v1/tasks"))["items"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_task_is_made_while_the_first_runs_and_both_commit_over_a_kill(tmp_path, kind):
    names = ("a", "b", "c", "d")
    with Service(tmp_path, kind, rounds=1) as service:
        made = ask(service, "task", "create", "second", "--rounds", 0, "--set", "plan.learning_rate=0.25")
        assert (made["status"], made["committed"], made["version"]) == ("active", 0, 1)
        with devices(service.broker_port, *names) as phones:
            asked: dict[str, Assignment] = {}
            for phone in phones:
                phone.check_in()
            for phone in phones:
                asked[phone.name] = phone.wait_for_assignment()
            by_task = {task: [a for a in asked.values() if a.task == task] for task in ("keyboard", "second")}
            assert [len(of_it) for of_it in by_task.values()] == [2, 2]
            assert {a.plan.learning_rate for a in by_task["second"]} == {0.25}
            reports = {
                phone.name: report_frame(asked[phone.name], np.full(LAYOUT.size, 0.01, np.float32), LAYOUT)
                for phone in phones
            }
            first = phones[0]
            assert first.report_until_receipt(asked["a"], reports["a"]).verdict is Verdict.ACCEPTED
            service.kill()
        service.start()
        with devices(service.broker_port, *names) as phones:
            for phone in phones:
                verdict = phone.report_until_receipt(asked[phone.name], reports[phone.name]).verdict
                assert verdict is (Verdict.DUPLICATE if phone.name == "a" else Verdict.ACCEPTED)
            service.wait_until(lambda: tasks(service)["second"]["committed"] == 1, "second committed")
            service.wait_until(lambda: tasks(service)["keyboard"]["status"] == "finished", "first finished")
            assert ask(service, "task", "stop", "second", "--reason", "seen enough") == {"changed": True}
            phones[0].check_in()
            assert phones[0].wait_for(Rejection).reason is RejectionReason.NO_TASK
        found = tasks(service)
        assert found["second"]["status"] == "stopped"
        assert found["second"]["reason"] == f"seen enough ({getpass.getuser()} on the command line)"
        assert {a.work for a in asked.values()} == {Work.TRAIN}
        assert [entry["action"] for entry in ask(service, "audit")] == ["stop-task", "create-task"]
