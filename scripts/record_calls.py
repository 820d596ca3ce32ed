"""Records which of our files a piece of work visits: a report on its way to a version, or the command ``task create``.

``sys.setprofile`` sees every call in every thread, and in the worker's process too. From it come, for the packages
coordinator, wire, models and host:

- the files in the order of their first visit, thread by thread,
- how often each file is entered again after the walk has left it. A visit is an unbroken run of calls into one file.
  A reader reads each function once, so the first figure counts only its first call; the second counts all calls, and
  with them the loops over data.

``--tree`` names another checkout, such as an older commit. What is not recorded: calls while a module is imported, and
what the broker and the pages do. TensorFlow is not loaded: the file that measures a version answers with fixed figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

PACKAGES = ("coordinator", "wire", "models", "host")
QUIET_S = 1.0
"""The work is over when no call has come for so long."""
PATIENCE_S = 120.0
_MEASURE = """
def measure(*_):
    return SimpleNamespace(top1=0.1, top3=0.2, loss=3.0, hits=b""), ()
"""


class Recorder:
    """Notes calls into our files while ``noting``; ``write`` gets the thread's name, and ``file:function``."""

    def __init__(self, tree: Path, write: Callable[[str, str], object]) -> None:
        self.noting = False
        self.calls = 0
        self._tree, self._write = tree, write
        self._here = threading.local()

    def watch(self) -> None:
        """Watch this thread, and those that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        here = self._here
        if frame.f_code.co_name == "<module>":
            here.imports = getattr(here, "imports", 0) + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and self.noting and not getattr(here, "imports", 0):
            file = place(frame.f_code.co_filename, self._tree)
            if file is not None:
                self.calls += 1
                self._write(threading.current_thread().name, f"{file}:{frame.f_code.co_qualname.split('.<')[0]}")


def place(path: str, tree: Path) -> str | None:
    """The file below the tree, without the import name; None if it is none of the packages'."""
    file = path.removeprefix(f"{tree}/").removeprefix("nightjar/")
    return file if file != path and file.startswith(tuple(f"{package}/" for package in PACKAGES)) else None


def ours(tree: Path, module: str) -> ModuleType:
    """A module of the tree, which may be older than the import name ``nightjar``."""
    return import_module(f"nightjar.{module}" if (tree / "nightjar").is_dir() else module)


def record_report(tree: Path) -> dict[str, list[str]]:
    """The calls for one report of a synchronous round that commits, by thread.

    The driver, the worker and its process, the database and the stored files are real; there is no broker: the MQTT
    client's callback is called, and what it publishes waits for a connection.
    """
    calls: dict[str, list[str]] = {}
    recorder = Recorder(tree, lambda thread, call: calls.setdefault(thread, []).append(call))
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        world, report = _before_the_report(tree, folder)
        recorder.watch()
        stack.callback(threading.setprofile, None)  # type: ignore[arg-type]
        sys.setprofile(None)
        session = _on_real_adapters(tree, folder, world, stack)
        topic = ours(tree, "wire.topics").up("demo", "b", "report", 1)
        message = SimpleNamespace(topic=topic, payload=report, qos=0, mid=1, retain=False)
        recorder.noting = True
        client = SimpleNamespace(subscribe=lambda _filters: None)
        threading.Thread(target=session._on_message, args=(client, None, message), name="network").start()
        _wait_until_quiet(recorder, lambda: world.phase_of(1).name == "COMMITTED")
        recorder.noting = False
        worker = (folder / "calls").read_text().splitlines()
    return {"network": calls.pop("network"), "driver": calls.pop("driver"), **calls, "worker's process": worker}


def _before_the_report(tree: Path, folder: Path) -> tuple[Any, bytes]:
    """A round that waits for its last report, and that report."""
    fakes, models = import_module("tests.coordinator.fakes"), import_module("tests.coordinator.model_folder")
    report_frame = import_module("tests.coordinator.fake_device").report_frame
    numpy = import_module("numpy")
    text = folder / "text"
    text.write_text("the cat sat\n")
    world = fakes.World(
        models.write_model(folder),
        folder,
        fakes.on_disk(folder)(),
        evaluation_text=text,
        codec=ours(tree, "coordinator.tasks.settings").CodecConfig(name="topk-8"),
    )
    world.check_in("a", "b")
    delta = numpy.linspace(0.01, 0.02, models.LAYOUT.size, dtype=numpy.float32)
    first, last = (report_frame(world.assignment(name), delta, models.LAYOUT, 5) for name in ("a", "b"))
    world.receive("a", "report", first)
    return world, last


def _on_real_adapters(tree: Path, folder: Path, world: Any, stack: contextlib.ExitStack) -> Any:
    """Start the world again on files, a worker's process and the driver's own thread; its first MQTT session."""
    config = ours(tree, "coordinator.config")
    worker, inbox = ours(tree, "coordinator.engine.worker"), ours(tree, f"coordinator.{_inbox(tree)}")
    blobs = ours(tree, "coordinator.storage.blobs").FileBlobs(folder / "artifacts")
    for blob in world.artifacts.blobs.values():
        blobs.put(blob)

    def post(event: object) -> None:
        world.driver.post(event)

    client = ours(tree, "coordinator.mqtt.client")
    sessions = vars(client).get("MqttSessions") or client.MqttTransport  # its name before
    transport = sessions(config.BrokerConfig(), "demo", 1, post)
    stores = worker.Stores(artifacts=str(folder / "artifacts"), database_url=f"sqlite:///{folder / '0.sqlite'}")
    command = (sys.executable, "-P", __file__, "worker", "--tree", str(tree), "--calls", str(folder / "calls"))
    process = worker.WorkerProcess(stores, folder / "worker.log", post, command)
    stack.callback(process.close)
    process.jobs = []  # the world empties a list of its fake worker
    world.artifacts, world.transport, world.worker = blobs, transport, process
    world.start()
    driver = threading.Thread(target=world.driver.run, name="driver")
    driver.start()
    stack.callback(driver.join)
    stack.callback(lambda: world.driver.post(inbox.ShutdownRequested()))
    handled = threading.Event()
    world.driver.post(inbox.MessageArrived("", b"", acknowledge=handled.set))
    if not handled.wait(PATIENCE_S):  # its first tick came before; its clock stands still, so there is no other
        sys.exit("the driver did not begin in time")
    return transport._sessions[0]


def _inbox(tree: Path) -> str:
    """Where the driver's events are."""
    return "records.inbox" if (tree / "coordinator/records").is_dir() else "engine.inbox"


def _wait_until_quiet(recorder: Recorder, done: Callable[[], bool]) -> None:
    deadline_s, before = time.monotonic() + PATIENCE_S, -1
    while recorder.calls != before or not done():  # in this order: it reads the database, beside the driver
        if time.monotonic() > deadline_s:
            sys.exit("the round did not commit in time")
        before = recorder.calls
        time.sleep(QUIET_S)


def work(tree: Path, calls: Path, parent: str) -> None:
    """Be the worker's process, and write each call to a file: the process ends by being killed."""
    child = ours(tree, "coordinator.engine.worker_child")
    measuring = ours(tree, "models")
    name = f"{measuring.__name__}.measuring"
    stand_in = ModuleType(name)
    stand_in.__dict__["SimpleNamespace"] = SimpleNamespace
    exec(compile(_MEASURE, f"{tree}/models/measuring.py", "exec"), stand_in.__dict__)  # noqa: S102 - our own text
    sys.modules[name] = measuring.measuring = stand_in
    with calls.open("w", buffering=1) as file:
        recorder = Recorder(tree, lambda _thread, call: file.write(f"{call}\n"))
        recorder.noting = True
        recorder.watch()
        child.main([parent])


def record_command(tree: Path) -> dict[str, Any]:
    """The calls of ``task create`` in the command's own process, and how many of our modules it has loaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models, free_ports = (
            import_module("tests.coordinator.model_folder"),
            ours(tree, "simulation.demo.configuration"),
        )
        models.write_model(folder / "model")
        ports = free_ports.free_ports(0)
        config = folder / "coordinator.toml"
        config.write_text(
            f'port = {ports.page}\ndata_dir = "data"\ntransport = "plain"\n'
            f'[broker]\nport = {ports.broker}\n[task]\nmodel = "model"\n'
        )
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        prefix = "nightjar." if (tree / "nightjar").is_dir() else ""
        service = [sys.executable, "-P", "-m", f"{prefix}coordinator", "serve", "--config", str(config)]
        with (folder / "log").open("wb") as log:
            serving = subprocess.Popen(service, env=environment, stdout=log, stderr=log)
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while b"coordinator_ready" not in (folder / "log").read_bytes():
                if serving.poll() is not None or time.monotonic() > deadline_s:
                    sys.exit((folder / "log").read_text())
                time.sleep(0.1)
            time.sleep(QUIET_S)
            command = [sys.executable, "-P", __file__, "command", "--tree", str(tree), "--calls", str(folder / "out")]
            arguments = ["task", "create", "second", "--config", str(config)]
            subprocess.run([*command, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
        finally:
            serving.terminate()
            serving.wait()
        found: dict[str, Any] = json.loads((folder / "out").read_text())
        return found


def be_command(tree: Path, calls: Path, arguments: list[str]) -> None:
    """Be ``nightjar-coordinator`` with these arguments, and write what it called and loaded."""
    noted: dict[str, list[str]] = {}
    sys.argv = ["nightjar-coordinator", *arguments]
    main = ours(tree, "coordinator.__main__").main
    recorder = Recorder(tree, lambda thread, call: noted.setdefault(thread, []).append(call))
    recorder.noting = True
    recorder.watch()
    try:
        main()
    finally:
        sys.setprofile(None)
        files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
        modules = [file for each in files if (file := place(each, tree)) is not None]
        calls.write_text(json.dumps({"calls": noted, "modules": sorted(modules)}))


def files_of(calls: Iterable[str]) -> list[str]:
    """The files of calls."""
    return [call.partition(":")[0] for call in calls]


def entered_again(walks: dict[str, list[str]], *, once: bool) -> Counter[str]:
    """How often each file is entered again after a walk has left it; ``once`` if only a function's first call counts.

    >>> walks = {"driver": ["a.py:f", "b.py:g", "a.py:f", "b.py:g", "a.py:h"]}
    >>> sorted(entered_again(walks, once=True).items()), sorted(entered_again(walks, once=False).items())
    ([('a.py', 1), ('b.py', 0)], [('a.py', 2), ('b.py', 1)])
    """
    counted: Counter[str] = Counter()
    for calls in walks.values():
        runs = Counter(file for file, _ in groupby(files_of(dict.fromkeys(calls) if once else calls)))
        counted.update({file: count - 1 for file, count in runs.items()})
    return counted


def first_visits(walks: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Each thread with the files that no thread before it has visited, in the order of their first visit.

    >>> list(first_visits({"network": ["a.py:f"], "driver": ["a.py:g", "b.py:h"]}))
    [('network', ['a.py']), ('driver', ['b.py'])]
    """
    known: set[str] = set()
    for thread, calls in walks.items():
        new = [file for file in dict.fromkeys(files_of(calls)) if file not in known]
        known.update(new)
        yield thread, new


def _print(walks: dict[str, list[str]]) -> None:
    reading, calling = (entered_again(walks, once=once) for once in (True, False))
    print("entered again by a reader, by all calls; file")
    for thread, files in first_visits(walks):
        print(f"{thread}:")
        for file in files:
            print(f"{reading[file]:6} {calling[file]:6}  {file}")
    print(f"{reading.total():6} {calling.total():6}  {len(reading)} files")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("report", "task-create", "worker", "command"))
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="every call, for a program")
    parser.add_argument("--calls", type=Path, help=argparse.SUPPRESS)  # of the processes that this script starts
    asked, further = parser.parse_known_args()
    tree = asked.tree.resolve()
    os.environ["PYTHONPATH"] = str(tree)
    sys.path[0] = str(tree)
    match asked.what:
        case "worker":
            work(tree, asked.calls, *further)
        case "command":
            be_command(tree, asked.calls, further)
        case "report":
            walks = record_report(tree)
            print(json.dumps(walks)) if asked.json else _print(walks)
        case "task-create":
            found = record_command(tree)
            if asked.json:
                print(json.dumps(found))
                return
            _print(found["calls"])
            print(f"{len(found['modules'])} of our modules in sys.modules")


if __name__ == "__main__":
    main()
