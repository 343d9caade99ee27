# SPDX-License-Identifier: BSD-2-Clause
"""Failed log-ins of late, by address: slows down those who guess. Pure."""

import ipaddress
from collections.abc import Callable
from typing import Final

FAILURES_MAX: Final = 10
FAILURES_S: Final = 60.0
"""So many failed log-ins in this time from one address, and the next ones are not even tried."""
_ADDRESSES_MAX: Final = 4096
_SITE_BITS: Final = 64


class FailedLogins:
    """Of one door; *now_s* is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._times: dict[str, list[tuple[float, bytes]]] = {}

    def note(self, address: str, tried: bytes = b"") -> bool:
        """A log-in from *address* has failed; gives whether it counts. Of too many addresses the first is forgotten.

        Who tries the same again guesses nothing: *tried*, a digest of the credentials, counts once in this time.
        """
        address = _site(address)
        if tried and any(earlier == tried for _, earlier in self._times.get(address, ())):
            return False
        if address not in self._times and len(self._times) >= _ADDRESSES_MAX:
            del self._times[next(iter(self._times))]
        self._times.setdefault(address, []).append((self._now_s(), tried))
        return True

    def too_many(self, address: str) -> bool:
        """Whether the next log-in from *address* is not to be tried."""
        address = _site(address)
        since_s = self._now_s() - FAILURES_S
        late = [failure for failure in self._times.pop(address, []) if failure[0] > since_s]
        if late:
            self._times[address] = late
        return len(late) >= FAILURES_MAX


def _site(address: str) -> str:
    """An IPv4 address, or the network of an IPv6 address, whose owner has 2^64 of them."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _SITE_BITS), strict=False).network_address)
