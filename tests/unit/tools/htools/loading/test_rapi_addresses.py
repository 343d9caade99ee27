# SPDX-License-Identifier: BSD-2-Clause
"""Where the placement tools look for a cluster: ``-m`` takes a host, an address or a URL."""

import pytest

from ganeti.tools.htools.loading import rapi


@pytest.mark.requirement("S1.97")
@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("cluster", "https://cluster:5080"),
        ("10.77.0.100", "https://10.77.0.100:5080"),
        ("fd77::100", "https://[fd77::100]:5080"),
        ("[fd77::100]", "https://[fd77::100]:5080"),
        ("cluster:5081", "cluster:5081"),
        ("[fd77::100]:5081", "[fd77::100]:5081"),
        ("https://[fd77::100]:5081", "https://[fd77::100]:5081"),
    ],
)
def test_a_bare_address_gets_scheme_and_port(given: str, url: str) -> None:
    """What has a colon and is no address is a URL, as it stands (spec: htools, 1)."""
    assert rapi._url(given) == url
