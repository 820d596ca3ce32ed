"""The page on deploying without containers, followed: its commands, as they stand there, on a machine of their own.

The machine is this one with ``/etc``, ``/opt``, ``/var/lib`` and a network of its own. In place of systemd, which does
not run in a container, the test starts what the installed units say: the socket's address, the service's program, user,
environment and folder. Downloads are replaced by the packages of this environment.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deploy.certificates import write_certificate
from tests.deploy.installed import copy_tracked, make_wheel
from tests.skips import NOT_ALLOWED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text()
UNITS = Path("/etc/systemd/system")
PROGRAMS = ("systemd-socket-activate", "systemd-analyze", "unshare", "nsenter", "setpriv", "ip", "adduser", "curl")
ADDRESS = "192.0.2.2"
"""Of the machine on its network; the page names it."""
PATIENCE_S = 300.0

pytestmark = [
    *(pytest.mark.long, pytest.mark.broker, pytest.mark.tensorflow, pytest.mark.tflite),
    pytest.mark.xdist_group("deployment"),
    pytest.mark.timeout(1800),  # it builds, installs and starts
]


def blocks(section: str) -> list[str]:
    """The commands of a section of the page, in order."""
    return re.findall(r"```sh\n(.*?)```", PAGE.split(f"## {section}\n")[1].split("\n## ")[0], re.DOTALL)


def changed(text: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        assert before in text, f"the page lacks {before!r}"
        text = text.replace(before, after)
    return text


def settings(unit: str) -> list[tuple[str, str]]:
    return re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE)


class Machine:
    """A machine of its own: what is written to its system folders stays in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "service.log"
        self.checkout = copy_tracked(folder / "checkout")
        (folder / "wheels").mkdir()
        self.wheel = make_wheel(self.checkout, folder / "wheels")
        (folder / "bin").mkdir()
        shim = folder / "bin" / "systemctl"
        shim.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n')
        shim.chmod(0o755)
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--propagation", "private", "bash", "-euc", self._setup()],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.service = None
        if self._holder.stdout.readline() != "ready\n":
            self.close()
            pytest.fail("the machine could not be made; its standard error says why")

    def _setup(self) -> str:
        """A shell script that gives this process its folders and its network, and stays."""
        lines = ["ip link set lo up", f"ip address add {ADDRESS}/32 dev lo"]
        for name in ("etc", "opt", "var/lib", "var/cache"):
            own = self.folder / "machine" / name
            own.mkdir(parents=True)
            copied = f"cp -a /{name}/. {own}" if name == "etc" else "true"
            lines += [copied, f"chmod 755 {own}", f"mount --bind {own} /{name}"]
        # A service's user must reach the interpreter that tests happen to have in root's home.
        lines += ["mkdir -p /var/lib/dpkg /var/lib/nginx"]  # packages that are installed made them
        home = [path for path in {Path(sys.base_prefix), Path(sys.prefix).resolve()} if path.is_relative_to("/root")]
        for number, path in enumerate(home):
            lines += [f"mkdir {self.folder}/home{number}", f"mount --bind {path} {self.folder}/home{number}"]
        if home:
            lines.append("mount -t tmpfs -o mode=755 none /root")
        for number, path in enumerate(home):
            lines += [f"mkdir -p {path}", f"mount --bind {self.folder}/home{number} {path}"]
        return "\n".join([*lines, "echo ready", "exec sleep infinity"])

    def command(self, *command: str) -> list[str]:
        inside = ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", f"--wdns={self.checkout}"]
        path = f"{self.folder / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return [*inside, "env", "-i", f"PATH={path}", "LC_ALL=C", "HOME=/root", *command]

    def run(self, commands: str) -> str:
        """What the commands print; as root, in the checkout."""
        how = {"capture_output": True, "text": True, "check": False, "timeout": 2 * PATIENCE_S}
        done = subprocess.run(self.command("bash", "-euo", "pipefail", "-c", commands), **how)
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def asked(self) -> list[str]:
        """What systemctl was asked since the last time."""
        path = self.folder / "asked"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def start(self) -> None:
        """Start what the units say, as systemd would, and wait until it is healthy."""
        self.stop()
        unit, socket = (self.run(f"cat {UNITS}/nightjar-coordinator.{kind}") for kind in ("service", "socket"))
        service = dict(settings(unit))
        folder = f"/var/lib/{service['StateDirectory']}"
        user, mode = service["User"], service["StateDirectoryMode"]
        self.run(f"install -d -m {mode} -o {user} -g {user} {folder}")
        environment = [value.replace("%S", "/var/lib") for name, value in settings(unit) if name == "Environment"]
        kept = service["EnvironmentFile"].removeprefix("-")
        environment += self.run(f"[ ! -e {kept} ] || cat {kept}").split()
        listens = dict(settings(socket))["ListenStream"]
        options = [f"--setenv={each}" for each in environment]
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--no-new-privs"]
        activated = ["systemd-socket-activate", f"--listen={listens}", *options, *as_user]
        program = shlex.split(service["ExecStart"])
        until_s, never = time.monotonic() + PATIENCE_S, int(service["RestartPreventExitStatus"])
        assert service["Restart"] == "always"
        while not self.health().get("ok"):
            if self.service is None or self.service.poll() is not None:
                assert self.service is None or self.service.returncode != never, self.logs()
                with self.log.open("ab") as log:
                    self.service = subprocess.Popen(self.command(*activated, *program), stdout=log, stderr=log)
            assert time.monotonic() < until_s, f"{self.health()}\n{self.logs()}"
            time.sleep(0.5)

    def health(self) -> dict:
        """The answer of the service's own port."""
        asked = self.command("curl", "-ks", "--max-time", "20", "https://127.0.0.1:8080/healthz")
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def stop(self) -> None:
        if self.service is not None:
            self.service.terminate()
            self.service.wait(60)
            self.service = None

    def close(self) -> None:
        self.stop()
        self._holder.kill()
        self._holder.communicate()

    def logs(self) -> str:
        return self.log.read_text()[-4000:] if self.log.exists() else ""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_ALLOWED} make a machine of its own: not root")
    if lacking := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("machine")
    for each in (folder, *folder.parents[:2]):  # a service's user comes through
        each.chmod(0o755)
    made = Machine(folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def installed(machine):
    """The machine after the first block of the page."""
    make = "from tests.deploy.installed import make_environment as make; from pathlib import Path; import sys"
    into = f"cd {ROOT}; {sys.executable} -c {shlex.quote(f'{make}; make(Path(sys.argv[1]), Path(sys.argv[2]))')}"
    install = "scripts/install_locked.sh /opt/nightjar/bin/python build.txt coordinator.txt tensorflow.txt"
    downloads = {
        "python3 -m venv /opt/nightjar\n": "",
        f"{install}   # with hashes\n": "",
        "/opt/nightjar/bin/pip install --no-deps --no-build-isolation .\n": f"({into} /opt/nightjar {machine.wheel})\n",
    }
    machine.run(changed(blocks("systemd")[0], downloads))
    assert machine.asked() == ["enable --now nightjar-coordinator.socket nightjar-coordinator.service"]
    machine.start()
    return machine


def test_the_installed_units_start_a_healthy_service_with_the_models_folder(installed):
    assert installed.health()["ok"] is True
    assert "manifest.json" in installed.run("ls -R /etc/nightjar")
    said = installed.run(
        "systemd-analyze verify --man=no /etc/systemd/system/nightjar-coordinator.service 2>&1 || true"
    )
    assert [line for line in said.splitlines() if "nightjar" in line and "not found" not in line] == []
    owner = installed.run("stat -c '%U %a' /var/lib/nightjar-coordinator").strip()
    assert owner == "nightjar 700"
    reached = installed.command("curl", "-ks", "--max-time", "20", f"https://{ADDRESS}:8080/healthz")
    assert subprocess.run(reached, check=False, capture_output=True).returncode != 0, "not opened yet"


def test_one_step_opens_it_to_the_network_and_a_device_enrols(installed):
    opened = blocks("systemd")[1]
    installed.run(opened)
    assert [each.split()[0] for each in installed.asked()] == ["daemon-reload", "stop", "start"]
    installed.start()
    answer = installed.run(f"curl -ks https://{ADDRESS}:8080/healthz")
    assert json.loads(answer)["ok"] is True
    assert f"https://{ADDRESS}:8080" in blocks("systemd")[2]
    installed.run(
        f"{blocks('systemd')[2]}\nprintf 'data_dir = \"device\"\\n' > agent.toml\n"
        "/opt/nightjar/bin/nightjar-agent enrol --config agent.toml --claim claim.json\n"
    )
    shown = installed.run(
        "export NIGHTJAR_CONFIG=/etc/nightjar/coordinator.toml NIGHTJAR_DATA_DIR=/var/lib/nightjar-coordinator\n"
        "/opt/nightjar/bin/nightjar-coordinator device show pi-kitchen --json"
    )
    assert json.loads(shown)["standing"] == "enrolled"


@pytest.mark.skipif(
    not Path("/usr/lib/nginx/modules/ngx_stream_module.so").exists(),
    reason="nginx is not installed: apt install nginx libnginx-mod-stream",
)
def test_debians_nginx_takes_the_configuration_of_the_page(installed):
    said = PAGE.split("## Behind a proxy of your own\n")[1].split("```")[0]
    variables = re.findall(r"`(NIGHTJAR_\w+=[\w.]+)`", said)
    assert len(variables) == 2
    installed.run(f"printf '%s\\n' {' '.join(variables)} >> /etc/nightjar/coordinator.env")
    chain = write_certificate(installed.folder / "certificates")
    installed.run(f"mkdir -p /etc/nginx/certificates && cp {chain.parent}/* /etc/nginx/certificates")
    (commands,) = blocks("Behind a proxy of your own")
    installed.run(changed(commands, {"apt install nginx libnginx-mod-stream\n": ""}))
    assert installed.asked() == ["restart nginx"]
