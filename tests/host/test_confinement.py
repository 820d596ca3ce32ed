"""A process without the network: what it may still open, and that it stays so."""

import socket
import subprocess
import sys
import textwrap

import pytest

from nightjar.host.confinement import _program


def run(code, **options):
    code = "import socket, sys\nfrom nightjar.host.confinement import forbid_network\n" + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)


def test_only_local_sockets_can_be_opened():
    done = run(
        """
        assert forbid_network()
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
                try:
                    socket.socket(family, kind)
                except OSError as error:
                    assert "not supported" in str(error), error
                else:
                    sys.exit(f"{family} could be opened")
        socket.socket(socket.AF_UNIX).close()
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_child_has_no_network_either():
    done = run(
        """
        import subprocess
        assert forbid_network()
        done = subprocess.run([sys.executable, "-c", "import socket; socket.socket()"], capture_output=True, text=True)
        assert "not supported" in done.stderr, done.stderr
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_handed_socket_still_accepts_connections():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import socket\nfrom nightjar.host.confinement import forbid_network\n"
                f"listener = socket.socket(fileno={listener.fileno()})\nassert forbid_network()\n"
                "listener.accept()[0].sendall(b'hello')",
            ],
            pass_fds=[listener.fileno()],
        )
        with socket.create_connection(listener.getsockname(), 30) as client:
            assert client.recv(5) == b"hello"
        assert child.wait(30) == 0


@pytest.mark.parametrize("number", [425, 0x40000000 | 41])
def test_the_ways_around_it_are_closed(number):
    done = run(
        f"""
        import ctypes
        assert forbid_network()
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.syscall({number}, 2, 1, 0) == -1
        assert ctypes.get_errno() == 1, ctypes.get_errno()
        """
    )
    assert done.returncode == 0, done.stderr


def test_each_jump_of_the_filter_stays_inside():
    instructions = [_program(1, 2)[at : at + 8] for at in range(0, len(_program(1, 2)), 8)]
    for place, instruction in enumerate(instructions):
        assert place + max(instruction[2], instruction[3]) < len(instructions)
