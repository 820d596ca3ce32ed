"""TLS contexts: of our servers, and of programs on this machine that connect to the service and its broker."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import urllib3

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.wire.errors import UnavailableError, rewording

FOLDER, AUTHORITIES = "tls", "authorities.pem"
"""Folder in ``data_dir``, and in it the certificates of the trusted authorities."""


def client_context(config: CoordinatorConfig) -> ssl.SSLContext:
    """A TLS context that trusts servers of our authority under any name, because it certifies no others.

    Raises:
        UnavailableError: there is no authority yet.
    """
    path = config.data_dir / FOLDER / AUTHORITIES
    with rewording(UnavailableError, f"cannot read {path}", "'serve' writes it"):
        context = ssl.create_default_context(cafile=str(path))
    context.check_hostname = False
    return context


def http_pool(config: CoordinatorConfig) -> urllib3.PoolManager:
    """A connection pool for the service on this machine.

    Raises:
        UnavailableError: the service uses TLS and was never started, so there is no authority yet.
    """
    if not config.tls:
        return urllib3.PoolManager()
    return urllib3.PoolManager(ssl_context=client_context(config), assert_hostname=False)


def server_context(folder: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Serves with a certificate, and verifies client certificates, which are optional, against the authorities."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / AUTHORITIES))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_name(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """Common name in the certificate that the peer presented: a device's name; empty without one."""
    shown: Any = connection.getpeercert()
    names = (value for part in shown["subject"] for key, value in part if key == "commonName") if shown else ()
    return next(iter(names), "")


def client_serial(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """Serial number of the certificate that the peer presented, decimal; empty without one."""
    shown = connection.getpeercert()
    return str(int(str(shown["serialNumber"]), 16)) if shown else ""
