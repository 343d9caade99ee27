# SPDX-License-Identifier: BSD-2-Clause
"""With GANETI_IP=6 or hybrid in the environment, every cluster whose test does not say otherwise speaks that."""

import os

import pytest

from ganeti.tools.testbed import bed, layout


def speak_what_is_asked() -> None:
    """Change the default of `bed.up`."""
    asked = os.environ.get("GANETI_IP") or "4"
    if asked not in layout.IP:
        raise pytest.UsageError(f"GANETI_IP={asked}: write one of {', '.join(layout.IP)}")
    assert bed.up.__kwdefaults__ is not None
    bed.up.__kwdefaults__["ip"] = asked
