# SPDX-License-Identifier: BSD-2-Clause
"""aiohttp, loaded without the certificates of all public authorities.

It makes an SSL context for public sites as it is imported, and OpenSSL reads some 150 certificates for that: a seventh
of the CPU time of a node daemon's start. Each connection of a cluster has a context of its own; who would forget it
trusts nobody.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables by which OpenSSL finds the authorities that it trusts by default."""


@contextmanager
def _trusting_nobody() -> Iterator[None]:
    former = {name: os.environ.get(name) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _trusting_nobody():
    import aiohttp
    from aiohttp import abc, http_exceptions, web

__all__ = ["abc", "aiohttp", "http_exceptions", "web"]
