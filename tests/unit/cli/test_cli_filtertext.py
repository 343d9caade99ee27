# SPDX-License-Identifier: BSD-2-Clause
"""Filter expressions as people type them."""

import pytest

from ganeti.cli.failures import Failure
from ganeti.cli.filtertext import parse_filter


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('name == "a"', ["==", "name", "a"]),
        ("name = 'a'", ["==", "name", "a"]),
        ("be/memory >= 512", [">=", "be/memory", 512]),
        ("pinst_cnt != -1", ["!=", "pinst_cnt", -1]),
        ("offline", ["?", "offline"]),
        ("not offline and master", ["&", ["!", ["?", "offline"]], ["?", "master"]]),
        ("a or b and c", ["|", ["?", "a"], ["&", ["?", "b"], ["?", "c"]]]),
        ("(a or b) and c", ["&", ["|", ["?", "a"], ["?", "b"]], ["?", "c"]]),
        ('"web" in tags', ["=[]", "tags", "web"]),
        ("'web' not in tags", ["!", ["=[]", "tags", "web"]]),
        ("name =~ m/^we.b$/", ["=~", "name", "^we.b$"]),
        ("name =~ /a\\/b/i", ["=~", "name", "(?i)a/b"]),
        ("name !~ #x#si", ["!", ["=~", "name", "(?is)x"]]),
        ("name =~ |x| or a", ["|", ["=~", "name", "x"], ["?", "a"]]),
        ('name =* "web*.x?"', ["=~", "name", "^web.*\\.x.$"]),
        ('name !* "a"', ["!", ["=~", "name", "^a$"]]),
        ('os == "say \\"hi\\""', ["==", "os", 'say "hi"']),
        ("disk.size/0 < 10", ["<", "disk.size/0", 10]),
    ],
)
def test_expressions(text, wanted):
    assert parse_filter(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a field before 'the end'"),
        ("name ==", "expected a number or a text in quotes before 'the end'"),
        ("name == web", "before 'web'"),
        ("(a", "closing parenthesis"),
        ("a b", "expected an 'and', an 'or' or the end before 'b'"),
        ("a and", "name of a field"),
        ('"web" tags', "expected 'in'"),
        ("name =~ /(/", "no regular expression"),
        ("name =~ /x", "no closing '/'"),
        ("name & x", "before '& x'"),
        ("1.5 in x", "before '1.5 in x'"),
    ],
)
def test_nonsense_is_named(text, message):
    with pytest.raises(Failure) as caught:
        parse_filter(text)
    assert message in caught.value.text
    assert caught.value.text.startswith("Failure: error while parsing query filter")
