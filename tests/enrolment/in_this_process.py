"""An authority that signs without a process of its own. The agent's tests use it too, so it needs few packages."""

from pathlib import Path

from nightjar.coordinator.tls.authority import Authority
from nightjar.coordinator.tls.authority_process import CertifyDevice, CertifyServer, ListAuthorities, Revoke


class InThisProcess:
    """An authority without a process of its own, and at its own time."""

    def __init__(self, folder: Path, now_s: float) -> None:
        self.authority, self.now_s = Authority(folder), now_s

    def ask(self, question):
        match question:
            case ListAuthorities():
                return self.authority.certificates()
            case CertifyDevice(csr, device, days):
                return [self.authority.certify_device(csr, device, days, self.now_s)]
            case CertifyServer(csr, names, days):
                return [self.authority.certify_server(csr, names, days, self.now_s)]
            case Revoke(serials):
                return self.authority.revocations([int(each) for each in serials])

    def close(self) -> None:
        pass
