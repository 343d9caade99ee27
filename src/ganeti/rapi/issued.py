# SPDX-License-Identifier: BSD-2-Clause
"""Bearers of tokens of issuers, for code that asks for a caller; what checks signatures is loaded when it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti.rapi.caller import Caller
from ganeti.rapi.issuers import IssuersFile

if TYPE_CHECKING:
    from ganeti.rapi.issued_tokens import IssuedTokens


class Issued:
    """Bearers of tokens of issuers; what checks signatures is only loaded where there is an issuer."""

    def __init__(self, path: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._file = IssuersFile(path)
        self._now_s = now_s
        self._tokens: IssuedTokens | None = None

    async def prepare(self, text: str) -> None:
        """Fetch what `find` needs for this token."""
        if (tokens := self._loaded()) is not None:
            await tokens.prepare(text)

    def find(self, text: str) -> Caller | None:
        """Give the bearer; None for a token that is none, wrong or over. Raises `RequestRefused` without any keys."""
        tokens = self._loaded()
        return None if tokens is None else tokens.find(text)

    def _loaded(self) -> IssuedTokens | None:
        if not self._file.read():
            return None
        if self._tokens is None:
            from ganeti.rapi.issued_tokens import IssuedTokens

            self._tokens = IssuedTokens(self._file, self._now_s)
        return self._tokens
