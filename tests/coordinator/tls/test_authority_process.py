import io
import os
import signal
import sys
import threading

import msgspec
import pytest

from nightjar.coordinator.tls import authority_process as signing
from nightjar.coordinator.tls.authority import new_request
from nightjar.coordinator.tls.authority_process import (
    AuthorityClient,
    CertifyDevice,
    ListAuthorities,
    own_command,
    serve,
)
from nightjar.wire.errors import RemoteProtocolError, UnavailableError


def answers(folder, *lines: bytes) -> list[dict]:
    said = io.BytesIO()
    serve(io.BytesIO(b"".join(line + b"\n" for line in lines)), said, folder, lambda: 1.7e9)
    return [msgspec.json.decode(line) for line in said.getvalue().splitlines()]


def test_each_question_has_one_answer_and_a_bad_one_harms_nobody(tmp_path):
    found = answers(
        tmp_path / "a",
        msgspec.json.encode(ListAuthorities()),
        b"no JSON",
        msgspec.json.encode(CertifyDevice("", "pi", 90)),
        msgspec.json.encode(CertifyDevice(new_request()[1], "pi", 90)),
        b'{"type":"Revoke","serials":["x"]}',
    )
    assert [each["type"] for each in found] == ["Signed", "Unsigned", "Unsigned", "Signed", "Unsigned"]
    assert found[2]["code"] == "csr"


@pytest.mark.slow
def test_the_authoritys_process_signs_and_is_started_again_when_it_is_gone(tmp_path):
    signer = AuthorityClient(own_command(tmp_path / "authority"))
    try:
        before = signer.ask(ListAuthorities())
        os.kill(signer._child.pid, signal.SIGKILL)
        assert signer.ask(ListAuthorities()) == before
        with pytest.raises(RemoteProtocolError):
            signer.ask(CertifyDevice("", "pi", 90))
    finally:
        signer.close()


@pytest.mark.parametrize(
    "command", [["/no/such/program"], [sys.executable, "-c", ""], [sys.executable, "-c", "print('x')"]]
)
def test_a_signer_that_does_not_answer_is_said(command):
    signer = AuthorityClient(command)
    with pytest.raises(UnavailableError, match="does not answer"):
        signer.ask(ListAuthorities())
    signer.close()


def test_a_signer_that_hangs_is_given_up_in_seconds_and_holds_up_nobody_else(monkeypatch):
    """Proven before: its pipe was read without a limit, so whoever asked waited for ever, and said nothing."""
    monkeypatch.setattr(signing, "START_S", 0.0)
    monkeypatch.setattr(signing, "ANSWER_S", 0.2)
    signer, refused = AuthorityClient([sys.executable, "-c", "import time; time.sleep(600)"]), []

    def ask():
        with pytest.raises(UnavailableError, match="does not answer"):
            signer.ask(ListAuthorities())
        refused.append(1)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(30)
    assert len(refused) == 4
    signer.close()
