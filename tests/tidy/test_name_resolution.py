# SPDX-License-Identifier: BSD-2-Clause
"""Names become addresses by getaddrinfo alone: the older calls know IPv4 only."""

import re
from pathlib import Path

import pytest

import ganeti

OLDER_CALLS = re.compile(r"\b(gethostbyname(_ex)?|gethostbyaddr|inet_aton)\(")


@pytest.mark.requirement("S1.102")
def test_no_older_call_is_used() -> None:
    sources = Path(ganeti.__path__[0]).rglob("*.py")
    assert [str(path) for path in sources if OLDER_CALLS.search(path.read_text())] == []
