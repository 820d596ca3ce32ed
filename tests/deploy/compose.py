"""``docker compose`` of the tests, for where a kernel forbids containers: runs the services that a compose.yaml names.

Read from the file, and so tested: services, commands, users, environments, volumes, networks, published ports, order,
health checks. Replaced: images; their programs are this machine's, started as the images start them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.container import ROOT, Container
from tests.deploy.network import OUTSIDE, Networks

STATE = "NIGHTJAR_TEST_COMPOSE"
"""Variable with the folder of a deployment's state."""
PATIENCE_S = 180.0
OUTSIDER = "phone"
NO_PROGRAM = {"grafana"}
"""Services whose program no package registry brings."""
POSTGRES_START = """
[ -s "$PGDATA/PG_VERSION" ] || {
    chown postgres "$PGDATA"; chmod 700 "$PGDATA"
    printf %s "$POSTGRES_PASSWORD" > /tmp/password; chmod 644 /tmp/password
    setpriv --reuid=postgres --regid=postgres --clear-groups initdb -U "$POSTGRES_USER" --pwfile=/tmp/password \\
        --auth-local=trust --auth-host=scram-sha-256 --no-sync -E UTF8
    echo "CREATE DATABASE $POSTGRES_USER" |
        setpriv --reuid=postgres --regid=postgres --clear-groups postgres --single -D "$PGDATA" template1 > /dev/null
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
}
mkdir -p /var/run/postgresql; chown postgres /var/run/postgresql
exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -c listen_addresses='*'
"""


@dataclass(frozen=True)
class Image:
    """What an image runs unless the compose file says otherwise, as whom, and the variables that it sets."""

    command: list[str]
    uid: int = 0
    environment: tuple[tuple[str, str], ...] = ()


def images() -> dict[str, Image]:
    """By name without the version: our own from its Containerfile, the others as their publishers describe them."""
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    last = text.split("\nFROM ")[-1]
    entry, arguments = (
        json.loads(re.search(rf"^{word} (\[.*\])$", last, re.MULTILINE)[1]) for word in ("ENTRYPOINT", "CMD")
    )  # type: ignore[index]
    variables = dict(
        pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", last, re.MULTILINE) for pair in line.split()
    )
    variables["PATH"] = variables["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    servers = max((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=Path("/usr/bin"))
    of_postgres = (("PGDATA", "/var/lib/postgresql/data"), ("PATH", f"{servers}:/usr/sbin:/usr/bin:/sbin:/bin"))
    stream = "load_module /usr/lib/nginx/modules/ngx_stream_module.so; "  # in the image it is built in
    return {
        "nightjar": Image([*entry, *arguments], int(re.search(r"--uid (\d+)", last)[1]), tuple(variables.items())),  # type: ignore[index]
        "docker.io/library/eclipse-mosquitto": Image(["mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]),
        "docker.io/library/postgres": Image(["bash", "-euc", POSTGRES_START], environment=of_postgres),
        "docker.io/library/nginx": Image(["nginx", "-e", "/dev/stderr", "-g", f"{stream}user root; daemon off;"]),
        "docker.io/prom/prometheus": Image(
            ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"], 65534
        ),
        "docker.io/prom/alertmanager": Image(
            [
                "prometheus-alertmanager",
                "--config.file=/etc/alertmanager/alertmanager.yml",
                "--storage.path=/alertmanager",
            ],
            65534,
        ),
    }


def read_compose(folder: Path) -> dict[str, Any]:
    """The compose file of a folder, with the variables of its ``.env`` put in.

    Raises:
        KeyError: a variable that must be set is not.
    """
    lines = (folder / ".env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        given = variables.get(name, "")
        if not given and kind == ":?":
            raise KeyError(f"{name}: {rest}")
        return given or (rest if kind == ":-" else "")

    text = re.sub(r"\$\{(\w+)(?:(:[?-])([^}]*))?\}", value, (folder / "compose.yaml").read_text())
    return yaml.safe_load(text)  # type: ignore[no-any-return]


class Deployment:
    """A compose file's services, as long as somebody runs them.

    Args:
        folder: of the compose file.
        state: folder for volumes, logs and what is running.
    """

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self.file = read_compose(folder)
        self.services: dict[str, dict[str, Any]] = {
            name: each for name, each in self.file["services"].items() if name not in NO_PROGRAM
        }

    def up(self) -> None:
        """Start what is not running, in the order of ``depends_on``; wait for health where that is asked for."""
        self.networks()
        for name in self._ordered():
            if not (self.state / f"{name}.json").exists():
                for other, wanted in self._needs(name).items():
                    if wanted.get("condition") == "service_healthy":
                        self.wait(other)
                self._container(name).start(self.state)

    def networks(self) -> None:
        """Make the networks, and the published ports, where there are none yet."""
        if (self.state / "addresses").exists():
            return
        networks = Networks(self._prefix)
        namespaces = {name: networks.attach(name, self._addresses(name)) for name in self.services}
        namespaces[OUTSIDER] = networks.attach(OUTSIDER, {"outside": f"{OUTSIDE}.200"})
        (self.state / "addresses").write_text(json.dumps(namespaces))
        (self.state / "volumes").mkdir(exist_ok=True)
        forwarded = [
            f"{port.split(':')[0]}:{self._addresses(name)['outside']}:{port.split(':')[1]}"
            for name, service in self.services.items()
            for port in service.get("ports", [])
        ]
        command = [str(ROOT / ".venv/bin/python"), "-m", "tests.deploy.forwarder", networks.HOST, *forwarded]
        Container("host", networks.host, command, working_dir=str(ROOT)).start(self.state)
        public = self.services["nginx"]["networks"]["inside"]["aliases"][0]
        hosts = f"127.0.0.1 localhost\n{networks.HOST} {public}\n"
        outsiders = self.state / "volumes" / OUTSIDER
        outsiders.mkdir()
        Container(
            OUTSIDER,
            namespaces[OUTSIDER],
            ["sleep", "1d"],
            environment={"PATH": "/opt/nightjar/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            mounts={"/home": str(outsiders)},
            hosts=hosts,
            working_dir="/home",
        ).start(self.state)

    def running(self, name: str) -> Container:
        """A container that was started."""
        return Container(**json.loads((self.state / f"{name}.json").read_text()))

    def restart(self, name: str) -> None:
        self.running(name).stop()
        self._container(name).start(self.state)

    def down(self) -> None:
        """Stop everything, and remove the networks."""
        for path in self.state.glob("*.json"):
            self.running(path.stem).stop()
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            if line.startswith(f"{self._prefix}-"):
                subprocess.run(["ip", "netns", "delete", line.split()[0]], check=False)

    def wait(self, name: str) -> None:
        """Wait until a service's health check succeeds."""
        until_s = time.monotonic() + PATIENCE_S
        while self.running(name).execute(self._check(name), capture_output=True).returncode:
            if time.monotonic() > until_s:
                raise AssertionError(f"{name} is not healthy:\n{self.log(name)}")
            time.sleep(0.5)

    def log(self, name: str) -> str:
        """What a service has written."""
        return (self.state / f"{name}.log").read_text()

    @property
    def _prefix(self) -> str:
        return f"njc{self.state.stat().st_ino}"

    def _check(self, name: str) -> list[str]:
        test = self.services[name].get("healthcheck", {}).get("test")
        if test is None:
            text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
            found = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.MULTILINE)
            return json.loads(found[1])  # type: ignore[index,no-any-return]
        return list(test[1:])

    def _needs(self, name: str) -> dict[str, dict[str, str]]:
        needs = self.services[name].get("depends_on", {})
        return needs if isinstance(needs, dict) else {other: {} for other in needs}

    def _ordered(self) -> Iterator[str]:
        done = set[str]()
        while len(done) < len(self.services):
            ready = [name for name in self.services if name not in done and self._needs(name).keys() <= done]
            assert ready, "depends_on goes round in a circle"
            yield from ready
            done.update(ready)

    def _addresses(self, name: str) -> dict[str, str]:
        """Network -> address of a service."""
        networks = self.services[name]["networks"]
        number = 130 + list(self.services).index(name)
        inside = self.file["networks"]["inside"]["ipam"]["config"][0]["subnet"].rsplit(".", 1)[0]
        asked = networks if isinstance(networks, dict) else dict.fromkeys(networks)
        net = {"inside": inside, "outside": OUTSIDE}
        return {each: (how or {}).get("ipv4_address", f"{net[each]}.{number}") for each, how in asked.items()}

    def _hosts(self, name: str) -> str:
        lines = ["127.0.0.1 localhost"]
        for other, service in self.services.items():
            for network in self._addresses(name).keys() & self._addresses(other).keys():
                networks = service["networks"]
                how = (networks[network] or {}) if isinstance(networks, dict) else {}
                lines.append(" ".join([self._addresses(other)[network], other, *how.get("aliases", [])]))
        return "\n".join(lines) + "\n"

    def _container(self, name: str) -> Container:
        service = self.services[name]
        image = images()[service["image"].split(":")[0]]
        uid = int(service.get("user", f"{image.uid}:").split(":")[0])
        environment = {
            **dict(image.environment),
            **{key: str(value) for key, value in service.get("environment", {}).items()},
        }
        if service["image"] == "nightjar":
            environment["PYTHONPATH"] = str(ROOT)
        return Container(
            name,
            json.loads((self.state / "addresses").read_text())[name],
            service.get("command", image.command),
            uid,
            environment,
            dict(self._mounts(service, uid)),
            self._hosts(name),
            bool(service.get("read_only")),
            "/var/lib/nightjar" if service["image"] == "nightjar" else "/",
        )

    def _mounts(self, service: dict[str, Any], uid: int) -> Iterator[tuple[str, str]]:
        for volume in service.get("volumes", []):
            source, inside, *option = volume.split(":")
            if source.startswith("."):
                outside = (self.folder / source).resolve()
                assert outside.exists(), f"{outside} is to be prepared"
            else:
                outside = self.state / "volumes" / source
                if not outside.exists():  # as a new volume is: owned as the folder of the image
                    outside.mkdir(mode=0o700)
                    os.chown(outside, uid, uid)
            yield inside, ":".join([str(outside), *option])


def main(arguments: list[str]) -> int:
    """The command line of ``docker``, as far as the page uses it."""
    deployment = Deployment(Path.cwd(), Path(os.environ[STATE]))
    match arguments:
        case ["compose", "up", "--build", "--wait"]:
            deployment.up()
            for name, service in deployment.services.items():
                if "healthcheck" in service or service["image"] == "nightjar":
                    deployment.wait(name)
        case ["compose", "restart", name]:
            deployment.restart(name)
        case ["compose", "exec", "-T", name, *command] | ["compose", "exec", name, *command]:
            return deployment.running(name).execute(command).returncode
        case _:
            sys.stderr.write(f"not known to this stand-in: docker {' '.join(arguments)}\n")
            return 2
    return 0


def install(folder: Path) -> None:
    """Write a program ``docker`` into a folder for the PATH."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {ROOT / ".venv/bin/python"} -m tests.deploy.compose "$@"\n')
    program.chmod(0o755)


def missing_programs() -> list[str]:
    """What this machine lacks for it."""
    wanted = (
        "ip",
        "unshare",
        "setpriv",
        "nginx",
        "mosquitto",
        "mosquitto_passwd",
        "prometheus",
        "prometheus-alertmanager",
    )
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    lacking = [name for name in wanted if shutil.which(name, path=path) is None]
    modules = [] if Path("/usr/lib/nginx/modules/ngx_stream_module.so").exists() else ["nginx's stream module"]
    servers = [] if any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) else ["postgresql"]
    return lacking + modules + servers


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
