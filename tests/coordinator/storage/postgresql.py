"""A PostgreSQL server of the tests' own: made in a temporary folder, reached by a socket in it, gone at the end."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.processes import end

INSTALLED = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    return max((path.parent for path in INSTALLED.glob("*/bin/initdb")), default=None)


@contextlib.contextmanager
def server(port: int | None = None) -> Iterator[str]:
    """The URL of an empty server.

    Args:
        port: to listen on at every address of this machine, for tests of several hosts; None for the socket alone.
    """
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("PostgreSQL is not installed: apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    # The server refuses to run as root, as which CI containers like to run.
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    subprocess.run(
        [*user, bin_folder / "initdb", "-D", data, "-U", "nightjar", "--auth=trust", "--no-sync", "-E", "UTF8"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    network = ["-c", "listen_addresses="]
    if port is not None:
        network = ["-c", "listen_addresses=*", "-p", str(port)]
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
    options = [*network, "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
    process = subprocess.Popen(
        [*user, bin_folder / "postgres", "-D", data, *options],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"postgresql+psycopg://nightjar@/postgres?host={folder}" + ("" if port is None else f"&port={port}")
    try:
        _wait(url)
        yield url
    finally:
        end(process, 120)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str) -> None:
    engine = sa.create_engine(url)
    deadline = time.monotonic() + 120
    while True:
        try:
            engine.connect().close()
        except sa.exc.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            engine.dispose()
            return


def fresh_database(url: str, name: str, template: str = "template1") -> str:
    """The URL of a new database on the server, a copy of the template."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    engine.dispose()
    return sa.make_url(url).set(database=name).render_as_string(hide_password=False)
