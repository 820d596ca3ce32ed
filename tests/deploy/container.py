"""One container of the tests: a process with a root folder, mounts, a host name, a network and a user of its own.

Its programs are those of this machine (``/usr`` and the checkout, read-only); everything else is what it is given.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSWD = """root:x:0:0:root:/root:/bin/sh
nightjar:x:1883:1883::/var/lib/nightjar:/bin/sh
postgres:x:{postgres}:{postgres}::/var/lib/postgresql:/bin/sh
nobody:x:65534:65534::/:/bin/sh
"""
GROUP = "root:x:0:\nnightjar:x:1883:\npostgres:x:{postgres}:\nnogroup:x:65534:\n"
_LINKS = ("bin", "sbin", "lib", "lib64")
_BOUND = ("/etc/ssl", "/etc/ld.so.cache", "/etc/alternatives", "/dev", "/proc", "/usr")


@dataclass
class Container:
    """What to run, and how.

    Attributes:
        name: of the host.
        namespace: network namespace.
        command: the program and its arguments.
        uid: user and group.
        environment: the whole environment.
        mounts: path inside -> path on this machine; read-only where ``:ro`` follows.
        hosts: the file of host names.
        read_only: whether only mounts and ``/tmp`` can be written.
        working_dir: folder to start in.
    """

    name: str
    namespace: str
    command: list[str]
    uid: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    hosts: str = ""
    read_only: bool = False
    working_dir: str = "/"
    pid: int = 0

    def start(self, state: Path) -> None:
        """Start it in the background; its log and its description are files in ``state``."""
        root = state / f"{self.name}.root"
        root.mkdir(exist_ok=True)
        entry = ["sh", "-euc", self._entry(root)]
        unshared = ["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--uts", *entry]
        with (state / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                unshared, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = process.pid
        (state / f"{self.name}.json").write_text(json.dumps(asdict(self)))

    def execute(self, command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        """Run a command beside it, as ``docker exec`` does."""
        return subprocess.run(self._beside(command), check=False, text=True, **how)  # type: ignore[call-overload,no-any-return]

    def execute_in_background(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command beside it; what it prints replaces the log."""
        with log.open("wb") as file:
            return subprocess.Popen(self._beside(command), stdout=file, stderr=file)

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
                subprocess.run(["timeout", "20", "tail", f"--pid={self.pid}", "-f", "/dev/null"], check=False)
            except ProcessLookupError:
                return

    def _beside(self, command: list[str]) -> list[str]:
        inside = [
            "nsenter",
            f"--target={self.pid}",
            "--net",
            "--mount",
            "--uts",
            "--root",
            f"--wd=/proc/{self.pid}/cwd",
        ]
        return [*inside, *self._as_user(), *command]

    def _as_user(self) -> list[str]:
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **self.environment}
        ids = [f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--no-new-privs"]
        variables = [f"{name}={value}" for name, value in environment.items()]
        return [*(["setpriv", *ids] if self.uid else []), "env", "-i", *variables]

    def _entry(self, root: Path) -> str:
        """A shell script that makes the root folder and enters it."""
        at = shlex.quote(str(root))
        postgres = int(subprocess.run(["id", "-u", "postgres"], capture_output=True, check=False).stdout or 999)
        lines = [
            f"mount -t tmpfs -o mode=755 none {at}",
            f"mkdir -p {at}/tmp {at}/run {at}/etc {at}/opt {at}/root {at}/var/lib/nginx && chmod 1777 {at}/tmp",
            *(f"ln -s usr/{name} {at}/{name}" for name in _LINKS),
            f"ln -s {shlex.quote(str(ROOT / '.venv'))} {at}/opt/nightjar",
            f"printf %s {shlex.quote(PASSWD.format(postgres=postgres))} > {at}/etc/passwd",
            f"printf %s {shlex.quote(GROUP.format(postgres=postgres))} > {at}/etc/group",
            f"printf %s {shlex.quote(self.hosts)} > {at}/etc/hosts",
            f"echo 'hosts: files' > {at}/etc/nsswitch.conf",
            f"hostname {self.name}",
        ]
        if self.read_only:
            lines.append(f"mount -t tmpfs -o mode=1777 none {at}/tmp")
        programs = {*map(Path, _BOUND), ROOT, Path(sys.base_prefix)}
        bound = {str(path): str(path) for path in sorted(programs) if path.exists() and path != Path("/usr/local")}
        for inside, outside in {**bound, **dict(sorted(self.mounts.items()))}.items():
            source, _, option = outside.partition(":")
            target = shlex.quote(f"{root}{inside}")
            made = f"mkdir -p {target}" if Path(source).is_dir() else f"mkdir -p $(dirname {target}); touch {target}"
            lines.append(f"[ -e {target} ] || {{ {made}; }}")
            lines.append(f"mount --{'rbind' if inside == '/dev' else 'bind'} {shlex.quote(source)} {target}")
            if option == "ro":
                lines.append(f"mount -o remount,bind,ro {target}")
        if self.read_only:
            lines.append(f"mount -o remount,bind,ro {at}")
        start = [*self._as_user(), *self.command]
        inner = f"cd {shlex.quote(self.working_dir)} && exec {shlex.join(start)}"
        return "\n".join([*lines, f"exec chroot {at} sh -c {shlex.quote(inner)}"])
