# SPDX-License-Identifier: BSD-2-Clause
"""How many random examples a law is held against: some in `make check`, all in `make test`, many in `make campaign`."""

import os

CAMPAIGN = os.environ.get("GANETI_CAMPAIGN", "0") not in ("", "0")
QUICK = not CAMPAIGN and "GANETI_HISTORIES" not in os.environ
"""`make test` and `make campaign` set GANETI_HISTORIES; what runs without it must end soon."""


def examples(gate: int, *, quick: int = 0, campaign: int = 0) -> int:
    """How many examples: *gate* in `make test`, *quick* (a quarter) without, *campaign* (*gate*) in a campaign."""
    if CAMPAIGN:
        return campaign or gate
    return (quick or max(1, gate // 4)) if QUICK else gate
