# SPDX-License-Identifier: BSD-2-Clause
"""What a server needs of aiohttp, loaded without the rest, which is loaded once somebody asks for it.

To import aiohttp is to import a client, its cookies and proxies, routes, static files and sessions of browsers: half of
the CPU time of a small daemon's start. Its modules are imported here one by one, below a package whose own file has
not run yet. The first name that only this file gives, such as ``aiohttp.ClientSession``, has it run.

As that happens aiohttp makes an SSL context for public sites, and OpenSSL reads some 150 certificates for it. Each
connection of a cluster has a context of its own; a client that forgets to give one trusts nobody.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables by which OpenSSL finds the authorities that it trusts by default."""
_NAME = "aiohttp"


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


def _without_its_file() -> ModuleType:
    """The package as it is before its own file runs; `import` finds its modules by its path."""
    spec = importlib.util.find_spec(_NAME)
    assert spec is not None and spec.loader is not None
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def rest(name: str) -> Any:
        if importlib.util.find_spec(f"{_NAME}.{name}") is not None:
            raise AttributeError(name)  # a module of it: `from aiohttp import web` imports it then
        del package.__getattr__
        with _trusting_nobody():
            loader.exec_module(package)
        return getattr(package, name)

    package.__version__ = ""  # type: ignore[attr-defined]  # for headers, in which our own name stands
    package.__getattr__ = rest  # type: ignore[method-assign]
    return package


sys.modules.setdefault(_NAME, _without_its_file())

import aiohttp  # noqa: E402  # as made above
from aiohttp.http_exceptions import BadHttpMethod, ContentEncodingError, HttpProcessingError, LineTooLong  # noqa: E402
from aiohttp.web_protocol import RequestHandler, RequestPayloadError  # noqa: E402
from aiohttp.web_request import BaseRequest  # noqa: E402
from aiohttp.web_response import Response, StreamResponse  # noqa: E402
from aiohttp.web_server import Server  # noqa: E402

__all__ = [
    "BadHttpMethod",
    "BaseRequest",
    "ContentEncodingError",
    "HttpProcessingError",
    "LineTooLong",
    "RequestHandler",
    "RequestPayloadError",
    "Response",
    "Server",
    "StreamResponse",
    "aiohttp",
]
