"""The main job, as a person runs it: separate processes, a real broker, real training."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.tflite, pytest.mark.tensorflow]

KEYS = {
    *(
        "rounds_committed",
        "rounds_abandoned",
        "reports_accepted",
        "reports_rejected",
        "dropouts",
        "report_bytes_median",
    ),
    *("dense_bytes", "bytes_up", "bytes_down", "top1_initial", "top1_final", "top3_final", "trigram_top1"),
    *("trigram_top3", "parameters", "runtime", "broker", "seconds", "seed"),
}


def demo(*arguments, timeout_s=900):
    return subprocess.run(
        [sys.executable, "-m", "nightjar.simulation", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


def test_rounds_commit_and_recall_rises_and_no_typed_message_is_kept_on_mosquitto(run_folder, mosquitto):
    check_a_run(run_folder, mosquitto, "mosquitto")


@pytest.mark.long
def test_rounds_commit_and_recall_rises_and_no_typed_message_is_kept_on_the_embedded_broker(run_folder):
    check_a_run(run_folder, "embedded", "amqtt")


@pytest.mark.xdist_group("tests/simulation/test_demo.py")  # its ports are those of the other demos
@pytest.mark.long
def test_phones_classify_the_rows_of_a_folder(tmp_path, run_folder, mosquitto):
    generator = np.random.default_rng(1)
    y = generator.integers(0, 3, 300)
    x = generator.normal(0, 3, (3, 8))[y] + generator.normal(0, 0.5, (300, 8))
    np.savez(tmp_path / "rows.npz", x=x, y=np.array(["red", "green", "blue"])[y])
    options = ["--task", "classification", "--corpus", str(tmp_path), "--model", "logistic", "--broker", mosquitto]
    done = demo(*options, "--phones", "3", "--rounds", "2", "--folder", str(run_folder), "--exit", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.keys() >= KEYS
    assert result["rounds_committed"] == 2
    assert result["top1_final"] > max(result["top1_initial"], 0.6)


def check_a_run(run_folder, broker, name):
    arguments = ["--phones", "5", "--rounds", "3", "--seed", "3", "--broker", broker, "--folder", str(run_folder)]
    done = demo(*arguments, "--exit", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.keys() >= KEYS
    assert result["rounds_committed"] == 3
    assert result["broker"] == name
    assert result["reports_accepted"] >= 3 * 2
    assert result["top1_final"] > result["top1_initial"]
    assert 0 < result["report_bytes_median"] < result["dense_bytes"] / 20
    assert "Traceback" not in done.stderr
    for log in (run_folder / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), log
    check_no_typed_message_is_in_any_log_or_file_of_the_servers(run_folder)


def check_no_typed_message_is_in_any_log_or_file_of_the_servers(run_folder):
    typed = {
        line
        for path in run_folder.glob("phone-*/messages.txt")
        for line in path.read_text().splitlines()
        if len(line.split()) >= 4
    }
    held_out = {line.partition("\t")[2] for line in (run_folder / "held_out.tsv").read_text().splitlines()}
    secret = [line.encode() for line in sorted(typed - held_out)]
    assert len(secret) > 100
    files = [*(run_folder / "logs").iterdir(), *(p for p in (run_folder / "coordinator").rglob("*") if p.is_file())]
    files += [p for p in (run_folder / "broker").rglob("*") if p.is_file()]
    assert len(files) > 8
    for path in files:
        data = path.read_bytes()
        assert not any(line in data for line in secret), path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no corpus file"),
        ("just one column\n", "user"),
        ("user\ttext\n", "no"),
        ("user\ttext\n\thello there\n\n", "user"),
    ],
)
def test_an_unusable_corpus_is_one_clear_line(tmp_path, content, expected):
    path = tmp_path / "corpus.tsv"
    if content is not None:
        path.write_text(content)
    done = demo("--corpus", str(path), "--folder", str(tmp_path / "run"), "--exit")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr.lower()


def test_a_taken_port_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = demo("--port", str(port), "--folder", str(tmp_path / "run"), "--exit")
    assert done.returncode == 2
    assert f"port {port} is taken" in done.stderr


def test_an_unknown_model_names_the_known_ones(tmp_path):
    done = demo("--model", "huge", "--folder", str(tmp_path / "run"), "--exit")
    assert done.returncode == 2
    assert "tiny" in done.stderr
    assert "gboard" in done.stderr
