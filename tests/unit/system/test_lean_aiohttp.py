# SPDX-License-Identifier: BSD-2-Clause
"""A daemon's start reads no certificates of public authorities; who asks for them later gets them."""

import os
import subprocess
import sys

import pytest

SAID = """
import os, ssl, sys
import {module}
from aiohttp import connector
contexts = [value for value in vars(connector).values() if isinstance(value, ssl.SSLContext)]
held = [context.cert_store_stats()["x509"] for context in contexts]
print(held, [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")])
"""
IMPORTERS = ("system.http_server", "system.http_client", "system.http_relay", "rapi.issued_tokens", "daemons.noded")


@pytest.mark.parametrize("module", IMPORTERS)
def test_aiohttp_is_loaded_without_the_authorities_of_the_public(module: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    said = subprocess.run(
        [sys.executable, "-c", SAID.format(module=f"ganeti.{module}")],
        env={**environment, "SSL_CERT_DIR": "/srv/mine"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "[0, 0] [None, '/srv/mine']"
