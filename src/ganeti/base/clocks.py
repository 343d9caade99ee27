# SPDX-License-Identifier: BSD-2-Clause
"""How far the clocks of two machines may be apart: one limit and one sentence for all that is signed or certified.

ConfD's questions (protocols, 4), a MonD's signed reports, calls of jobs, copies of the configuration, joining with a
token. `gnt-cluster verify` warns from half of it on.
"""

CLOCK_SKEW_S = 300.0
SENT_AT = "Sent-At"
"""Header of a node call: the caller's clock, in seconds since 1970."""


def clock_fault(whose: str, ahead_s: float, than: str) -> str | None:
    """What is wrong with the clock of *whose*, which is *ahead_s* seconds ahead of that of *than*; None within the
    limit."""
    if abs(ahead_s) <= CLOCK_SKEW_S:
        return None
    direction = "ahead of" if ahead_s > 0 else "behind"
    return (
        f"The clock of {whose} is {abs(ahead_s):.0f} seconds {direction} that of {than}: set the clocks right, "
        f"{CLOCK_SKEW_S:.0f} seconds are allowed"
    )


def sent_fault(node: str, sent_at: str, now_s: float) -> str | None:
    """What is wrong with the time in a caller's `SENT_AT`; a caller that says none has none."""
    try:
        return clock_fault(f"node {node}", now_s - float(sent_at), "the caller") if sent_at else None
    except ValueError:
        return f"The header {SENT_AT} is no time"
