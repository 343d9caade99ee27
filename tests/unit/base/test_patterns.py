# SPDX-License-Identifier: BSD-2-Clause
"""Regular expressions of users: which are refused, and that all others find what Python finds."""

import re
import time

import pytest

from ganeti.base.patterns import Pattern, PatternError

ENDLESS = (
    r"^(([a-z0-9.])+.?)+[A-Z]$",
    r"([a-z]+)+$",
    r"(a*)*b",
    r"(a|aa)+$",
    r"(a|a)*$",
    r"(.*)*x",
    r"(a?){50}b",
    r"a?" * 30 + "a" * 30,
    r"(x+x+)+y",
    r"(?=(a+)+$)b",
    r"(?:(?:a{1,100}){1,100})$",
    r"((ab)*)*c",
    r".*" * 12 + "x",
    r"(a|b|ab)*c",
    r"^([a-z]+\.?)*$",
    r"^(\.?[a-z]+)*$",
    r"^([a-z]+(\.|[a-z]))*$",
    r"^(a+$|a)*b",
    r"(?ms)^(.+$)*x",
)
USUAL = (
    r"^web[0-9]+\.example\.com$",
    r"(web|db)[0-9]*",
    r"^([a-z0-9-]+\.)+com$",
    r"^.*web.*example.*com.*$",
    r"(?i)WEB",
    r"(foo|bar)*",
    r"^([0-9]{1,3}\.){3}[0-9]{1,3}$",
    r"^(ab)+$",
    r"[^.]+\.[^.]+$",
    r"^(?!web)",
    r"(w)e.*\1",
    r"^\S+$",
    r"^[a-z0-9]+(\.[a-z0-9]+)*$",
    r"^[a-z]+(-[a-z]+)*\.example\.com$",
    r"^\w+(?:\.(?:com|net))+$",
    "",
)
TEXTS = ("web1.example.com", "db", "192.168.1.20", "foobarfoo", "abab", "", "web1", "w-e-w", "WEB.Example.COM")


@pytest.mark.parametrize("text", ENDLESS)
def test_an_expression_that_could_run_for_hours_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="repetition"):
        Pattern(text)


@pytest.mark.parametrize("text", USUAL)
def test_a_usual_expression_finds_what_python_finds(text: str) -> None:
    for where in TEXTS:
        assert Pattern(text).found_in(where) == (re.search(text, where) is not None)


def test_what_is_accepted_ends_soon_on_the_longest_name() -> None:
    for text in (r".*a.*b", r"^.*a.*b.*c.*d$", r"[a-z]*[0-9a-z]*$", r"^([a-z0-9-]+\.)+X$", r"(foo|bar)*x"):
        began_s = time.process_time()
        for where in ("ab" * 120, "a-" * 120, "foobar" * 40):
            try:
                Pattern(text).found_in(where)
            except PatternError:
                continue
        assert time.process_time() - began_s < 1.0, text


def test_a_text_that_is_too_long_for_an_expression_is_refused() -> None:
    pattern = Pattern(r".*a.*b.*c")
    assert pattern.found_in("a b c")
    with pytest.raises(PatternError, match="4000 characters"):
        pattern.found_in("x" * 4000)


def test_what_is_no_expression_says_why() -> None:
    for text in ("(", "[a", "a{4294967296}", "(" * 900):
        with pytest.raises(PatternError):
            Pattern(text)
    with pytest.raises(PatternError, match="1000 are the most"):
        Pattern("a" * 1001)
