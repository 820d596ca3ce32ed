"""The demo's temporary certificate authority, which belongs to the folder of one run.

Each phone gets its certificate like any device, with a claim and its own key; only the claim is not printed on a card.
The coordinator's certificate issuer runs in this process, before the coordinator starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer, Certified, new_claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.signing_key import load_signer
from nightjar.coordinator.tls.files import refresh, signer_of
from nightjar.edge_agent.enrolment.identity import EnrolledIdentity, keep
from nightjar.edge_agent.enrolment.keys import next_key
from nightjar.firmware_scripts.program_signing import sign_model
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId

CLAIM_LIFE_S = 3600.0


def enrol_phones(coordinator_toml: Path, data_dirs: Mapping[str, Path]) -> None:
    """Make the certificate authority of a coordinator that is not running yet, and enrol each phone.

    ``data_dirs`` has the data folder of each device, which does not exist yet.

    Raises:
        UnavailableError: a certificate could not be issued.
    """
    config = load_config(coordinator_toml, os.environ)
    clock, signer = WallClock(), signer_of(config)
    config.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(database_url(config))
    try:
        refresh(config, signer, (), clock.now_s())
        key = load_signer(config.data_dir).public
        issuer = CertificateIssuer(config, Register(database), signer, clock, key)
        for name, data_dir in data_dirs.items():
            _enrol(config, issuer, DeviceId(name), data_dir, clock.now_s())
    finally:
        database.close()
        signer.close()


def signed_by_owner(folder: Path) -> str:
    """Sign the program of the run's model as the phones' owner, with a key of the run; returns its public half."""
    return sign_model(folder / "owner", folder / "model").signatures[0].key


def _enrol(
    config: CoordinatorConfig, issuer: CertificateIssuer, device: DeviceId, data_dir: Path, now_s: float
) -> None:
    characters, claim = new_claim(
        f"demo-{device}", now_s, CLAIM_LIFE_S, device=device, prefix="", uses=1, approval=False
    )
    issuer.register.add_claim(claim, "demo")
    data_dir.mkdir(mode=0o700, parents=True)
    key, csr = next_key(data_dir)
    found = issuer.enrol(characters, csr, urlsplit(config.url).hostname or "")
    if not isinstance(found, Certified):
        msg = f"{device} got no certificate: {found}"
        raise UnavailableError(msg)
    keep(
        data_dir,
        EnrolledIdentity(
            device=device,
            population=config.population,
            coordinator_url=config.url,
            broker_host=config.broker.host,
            broker_port=config.broker.device_port or config.broker.port,
            authorities=list(found.authorities),
            expires_s=found.expires_s,
            renew_s=found.renew_s,
            coordinator_key=issuer.coordinator_key,
        ),
        key + found.certificate.encode(),
    )
