# SPDX-License-Identifier: BSD-2-Clause
"""Single values of the cluster object that have a form: the same whether a cluster is made with them or given them."""

import re
from collections.abc import Iterable

from ganeti.base import names
from ganeti.base.errors import ParameterError

_MAC_PREFIX = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/]\S*", re.IGNORECASE)


def mac_prefix(given: str) -> str:
    """Give the first three bytes of MAC addresses in small letters; raises `ParameterError`."""
    if not _MAC_PREFIX.fullmatch(given):
        raise ParameterError(f"The MAC prefix '{given}' is not one: write three bytes in hexadecimal, such as aa:00:00")
    if int(given[:2], 16) & 1:
        raise ParameterError(f"The MAC prefix '{given}' is one of group addresses: its first byte must be even")
    return given.lower()


def compression_tools(given: Iterable[str]) -> list[str]:
    """Names of programs, each to be found in the path; raises `ParameterError`."""
    tools = list(given)
    for tool in tools:
        if not _PLAIN_NAME.fullmatch(tool) or set(tool) == {"."}:
            raise ParameterError(f"'{names.shown(tool)}' cannot be a compression tool: give the plain name")
    return tools


def image(given: str, setting: str) -> str:
    """The place of a disk image, or nothing; raises `ParameterError` naming *setting*."""
    fault = names.path_fault(given) if given.startswith("/") else names.line_fault(given)
    if fault is not None:
        raise ParameterError(f"'{names.shown(given)}' for {setting} cannot be used: {fault}")
    if given and not given.startswith("/") and not _URL.fullmatch(given):
        raise ParameterError(f"'{given}' for {setting} is neither an absolute path nor a URL")
    return given
