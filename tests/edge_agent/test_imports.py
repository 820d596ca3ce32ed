"""What the agent may load: a device has neither TensorFlow nor, without a keyboard, a reason for a web framework."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar import edge_agent

ROOT = Path(__file__).parents[2]
MODULES = sorted(m.name for m in pkgutil.walk_packages(edge_agent.__path__, "nightjar.edge_agent."))


def loaded_by(statement):
    code = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
def test_no_module_of_the_agent_loads_tensorflow():
    # IBus and its bindings are of the system's Python, which runs the engine of the desk.
    names = [name for name in MODULES if not name.endswith(("__main__", "desktop.engine"))]
    assert len(names) > 20
    loaded = loaded_by("import " + ", ".join(names))
    assert not {name for name in loaded if name.split(".")[0] in ("tensorflow", "keras", "sqlalchemy")}
    assert not {name for name in loaded if name.startswith("nightjar.coordinator")}


def test_the_command_loads_no_web_framework_and_no_runtime_before_it_needs_them():
    loaded = loaded_by("import nightjar.edge_agent.__main__")
    assert not {name for name in loaded if name.split(".")[0] in ("flask", "waitress", "ai_edge_litert")}


@pytest.mark.parametrize("core", [name for name in MODULES if name.startswith("nightjar.edge_agent.core.")])
def test_a_core_imports_no_clock_thread_socket_or_database(core):
    source = (ROOT / (core.replace(".", "/") + ".py")).read_text()
    for module in ("time", "random", "threading", "socket", "sqlite3", "os", "pathlib"):
        assert f"\nimport {module}\n" not in source
        assert f"\nfrom {module} import" not in source


def test_the_running_agent_pays_for_no_web_framework_and_no_prediction():
    loaded = loaded_by("import nightjar.edge_agent.assembly")
    assert not {name for name in loaded if name.split(".")[0] in ("flask", "waitress", "werkzeug")}
    assert not {name for name in loaded if name.startswith("nightjar.edge_agent.keyboard.sugg")}


def test_the_running_agent_pays_for_no_cryptography_library():
    loaded = loaded_by("import nightjar.edge_agent.assembly, nightjar.edge_agent.enrolment.renewal")
    assert not {name for name in loaded if name.split(".")[0] in ("cryptography", "cffi")}


def test_the_training_process_loads_no_logging_library_whose_memory_would_come_on_top():
    loaded = loaded_by(
        "import nightjar.edge_agent.session.session, nightjar.edge_agent.session.trainer_messages, "
        "nightjar.edge_agent.shell.tflite"
    )
    assert not {name for name in loaded if name.split(".")[0] in ("structlog", "rich", "asyncio")}
