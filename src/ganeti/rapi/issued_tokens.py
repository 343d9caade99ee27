# SPDX-License-Identifier: BSD-2-Clause
"""Tokens of issuers of OpenID Connect: signature, issuer, audience and time are checked against the issuer's keys.

The keys are fetched over HTTPS when the first token comes, every hour, and once a token names a key that is not
known. While the issuer does not answer, the keys that are known count, for a day.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import msgspec

from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.caller import Caller
from ganeti.rapi.issuers import Issuer, IssuersFile
from ganeti.system.lean_aiohttp import aiohttp  # its client is loaded by the first request

_log = logging.getLogger(__name__)
KEPT_S: Final = 3600.0
LONGEST_S: Final = 86400.0
"""Keys older than that do not count: the issuer may have withdrawn them meanwhile."""
AGAIN_S: Final = 10.0
"""So long after one attempt to fetch keys comes the next one."""
_FETCH_S: Final = 5.0
_ANSWER_BYTES: Final = 1024 * 1024
_TOKEN_BYTES: Final = 16 * 1024
_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class KeysMissing(Exception):
    """The issuer gave no keys; the sentence says why."""


@dataclass
class _Keys:
    """What is known of one issuer."""

    issuer: Issuer
    by_id: dict[str, jwt.PyJWK] = field(default_factory=dict)
    fetched_s: float | None = None
    tried_s: float | None = None
    fault: str = "they were never fetched"
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


class IssuedTokens:
    """Finds the bearer of a token; `prepare` before each request, so that its key is there."""

    def __init__(self, file: IssuersFile, now_s: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._now_s = now_s
        self._keys: dict[str, _Keys] = {}
        self._renewals: set[asyncio.Task[None]] = set()

    async def prepare(self, text: str) -> None:
        """Fetch the keys of the token's issuer, where that is needed and was not tried just now."""
        found = self._read(text)
        if found is None:
            return
        keys, key_id = self._of(found[0]), found[1]
        if not self._is_wanted(keys, key_id):
            return
        renewal = asyncio.ensure_future(self._renew(keys, key_id))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)
        if key_id not in keys.by_id or self._is_stale(keys):
            await asyncio.shield(renewal)

    async def _renew(self, keys: _Keys, key_id: str) -> None:
        async with keys.busy:
            if not self._is_wanted(keys, key_id):
                return
            keys.tried_s = self._now_s()
            try:
                keys.by_id = await _fetch_keys(keys.issuer)
                keys.fetched_s = keys.tried_s
            except KeysMissing as err:
                keys.fault = str(err)
                _log.warning("the keys of %s cannot be had: %s", keys.issuer.issuer, err)

    def find(self, text: str) -> Caller | None:
        """Give the bearer; None for a token that is none, wrong or over. Raises `RequestRefused` without any keys."""
        found = self._read(text)
        if found is None:
            return None
        issuer, key_id = found
        keys = self._of(issuer)
        if self._is_stale(keys):
            raise RequestRefused(
                503, f"The keys of {issuer.issuer} cannot be had: {keys.fault}", {"Retry-After": f"{AGAIN_S:.0f}"}
            )
        key = keys.by_id.get(key_id)
        if key is None or key.algorithm_name not in issuer.algorithms:
            return None
        return self._bearer(issuer, key, text)

    def _bearer(self, issuer: Issuer, key: jwt.PyJWK, text: str) -> Caller | None:
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[str(key.algorithm_name)],
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=issuer.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as err:
            _log.info("a token of %s is refused: %s", issuer.issuer, err)
            return None
        name = issuer.name(claims)
        return None if name is None else Caller(name, issuer.allowed(claims))

    def _read(self, text: str) -> tuple[Issuer, str] | None:
        """Give the issuer that a token names, and its key: nothing of it is proven yet."""
        issuers = self._file.read()
        if not issuers or text.count(".") != 2 or len(text) > _TOKEN_BYTES or not text.isascii():
            return None
        try:
            whole = jwt.decode_complete(text, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError):
            return None
        issuer = issuers.get(str(whole["payload"].get("iss")))
        return None if issuer is None else (issuer, str(whole["header"].get("kid", "")))

    def _of(self, issuer: Issuer) -> _Keys:
        keys = self._keys.get(issuer.issuer)
        if keys is None or keys.issuer != issuer:
            keys = self._keys[issuer.issuer] = _Keys(issuer)
        return keys

    def _is_stale(self, keys: _Keys) -> bool:
        return keys.fetched_s is None or self._now_s() > keys.fetched_s + LONGEST_S

    def _is_wanted(self, keys: _Keys, key_id: str) -> bool:
        now_s = self._now_s()
        if keys.tried_s is not None and now_s < keys.tried_s + AGAIN_S:
            return False
        return keys.fetched_s is None or key_id not in keys.by_id or now_s > keys.fetched_s + KEPT_S


async def _fetch_keys(issuer: Issuer) -> dict[str, jwt.PyJWK]:
    """Raises `KeysMissing`."""
    try:
        trusted = ssl.create_default_context(cafile=issuer.ca_file)
        timeout = aiohttp.ClientTimeout(total=_FETCH_S)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted), timeout=timeout) as session:
            address = issuer.jwks_uri
            if address is None:
                told = await _get(session, issuer.issuer.rstrip("/") + _WELL_KNOWN)
                if told.get("issuer") != issuer.issuer:
                    raise KeysMissing(f"its configuration is that of {told.get('issuer')}")
                address = str(told.get("jwks_uri"))
            return _keys_in(await _get(session, address))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as err:
        raise KeysMissing(str(err) or "it does not answer") from err


async def _get(session: "aiohttp.ClientSession", address: str) -> dict[str, Any]:
    if not address.startswith("https://"):
        raise KeysMissing(f"'{address}' must be an address that begins with https://")
    async with session.get(address, allow_redirects=False) as response:
        if response.status != 200:
            raise KeysMissing(f"{address} answers with {response.status}")
        data = b""
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > _ANSWER_BYTES:
                raise KeysMissing(f"{address} gives more than {_ANSWER_BYTES} bytes")
    return msgspec.json.decode(data, type=dict[str, Any])


def _keys_in(told: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """Give the keys that sign tokens, by their ids; those of kinds that are not known do not count."""
    found: dict[str, jwt.PyJWK] = {}
    entries = told.get("keys")
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
            continue
        try:
            found[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
    if not found:
        _log.warning("none of the keys of an issuer can be used: no token of it is taken")
    return found
