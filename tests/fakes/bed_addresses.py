# SPDX-License-Identifier: BSD-2-Clause
"""With GANETI_IP=6 or hybrid in the environment, every cluster whose test does not say otherwise speaks that."""

import os

import pytest

from ganeti.tools.testbed import bed, layout


def of_ipv4_alone(reason: str) -> pytest.MarkDecorator:
    """Mark tests whose cluster says `ip="4"`: run where nothing else is asked for, else skipped for this reason."""
    return pytest.mark.skipif(os.environ.get("GANETI_IP", "") not in ("", "4"), reason=f"IPv4 alone: {reason}")


def speak_what_is_asked() -> None:
    """Change the default of `bed.up`."""
    asked = os.environ.get("GANETI_IP") or "4"
    if asked not in layout.IP:
        raise pytest.UsageError(f"GANETI_IP={asked}: write one of {', '.join(layout.IP)}")
    assert bed.up.__kwdefaults__ is not None
    bed.up.__kwdefaults__["ip"] = asked
