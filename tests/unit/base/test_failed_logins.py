# SPDX-License-Identifier: BSD-2-Clause
"""Who guesses is slowed down by address; an IPv6 address is as good as any other of its network."""

import pytest

from ganeti.base.failed_logins import FAILURES_MAX, FAILURES_S, FailedLogins


@pytest.mark.parametrize(
    ("guesser", "same", "other"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ("2001:db8::1", "2001:db8:0:0:ffff::9", "2001:db8:0:1::1"),
        ("fe80::1%eth0", "fe80::2%eth0", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1", "::ffff:10.0.0.2"),
        ("", "", "10.0.0.1"),
    ],
)
def test_ten_failures_in_a_minute_are_enough(guesser: str, same: str, other: str) -> None:
    now_s = [0.0]
    failed = FailedLogins(lambda: now_s[0])
    for _ in range(FAILURES_MAX):
        assert not failed.too_many(same)
        failed.note(guesser)
    assert failed.too_many(same) and not failed.too_many(other)
    now_s[0] += FAILURES_S
    assert not failed.too_many(same)
