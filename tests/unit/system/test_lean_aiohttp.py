# SPDX-License-Identifier: BSD-2-Clause
"""A server's start loads no client; whoever asks for one gets it, without certificates of public authorities."""

import os
import subprocess
import sys

import pytest

SAID = """
import os, ssl, sys
import {module}
print("aiohttp.client" in sys.modules, "aiohttp.web" in sys.modules)
import aiohttp
print(aiohttp.ClientSession.__module__)
from aiohttp import connector, web
contexts = [value for value in vars(connector).values() if isinstance(value, ssl.SSLContext)]
held = [context.cert_store_stats()["x509"] for context in contexts]
print(held, [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")], web.Application.__name__)
"""
IMPORTERS = ("system.http_server", "system.http_relay", "rapi.issued_tokens", "daemons.noded")


@pytest.mark.parametrize("module", IMPORTERS)
def test_aiohttp_is_loaded_without_its_client_and_the_authorities_of_the_public(module: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    said = subprocess.run(
        [sys.executable, "-c", SAID.format(module=f"ganeti.{module}")],
        env={**environment, "SSL_CERT_DIR": "/srv/mine"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines() == [
        "False False",
        "aiohttp.client",
        "[0, 0] [None, '/srv/mine'] Application",
    ]
