# SPDX-License-Identifier: BSD-2-Clause
"""What a name and a path may be, rule by rule."""

import pytest

from ganeti.base import names

CONTROL = ["a\nb", "a\n", "\na", "a\rb", "a\tb", "a\0b", "a\x1b[2J", "a\x7fb", "a\x85b", "a\u2028b", "a\udcffb"]


@pytest.mark.parametrize("text", CONTROL)
@pytest.mark.parametrize(
    "rule",
    [
        *(
            names.line_fault,
            names.reference_fault,
            names.host_name_fault,
            names.instance_name_fault,
            names.file_name_fault,
            names.os_name_fault,
        ),
        *(names.new_label_fault, names.program_name_fault, names.path_fault, names.relative_path_fault),
    ],
)
def test_no_rule_lets_a_control_character_pass(rule, text):
    assert rule(text) is not None
    assert "\n" not in rule(text)


@pytest.mark.parametrize("text", CONTROL)
def test_nor_does_that_of_absolute_paths(text):
    assert "control character" in (names.absolute_path_fault(f"/srv/{text}") or "")


@pytest.mark.parametrize("name", ["web1", "WEB-1.example.com", "a", "1.example", "1web", "web1.0x", "a" * 63])
def test_host_names(name):
    assert (names.host_name_fault(name) is None) == (not name.endswith("0x"))


@pytest.mark.parametrize("name", ["127.0.0.1", "10", "1.2.3", "web.1", "0x7f000001", "127.0x1", "::1", "fe80::1%eth0"])
def test_an_address_is_no_host_name(name):
    assert names.address_fault(name) is not None
    assert names.host_name_fault(name) is not None


@pytest.mark.parametrize(
    "name", ["", "..", "a..b", ".a", "a.", "-a", "a/b", "naïve", "a_b", "\u017f", "\u212a", "a" * 254]
)
def test_other_things_are_no_host_names_either(name):
    assert names.host_name_fault(name) is not None


@pytest.mark.parametrize("name", ["default", "rack-1", "DC1.row_2", "grün", "a+b:c@d*e", "1"])
def test_names_of_groups_and_networks(name):
    assert names.new_label_fault(name) is None


@pytest.mark.parametrize("name", ["", "x y", "a/b", "a|b", "a,b", "-x", "x\u00a0y", "--all"])
def test_a_name_that_parts_lists_and_paths_is_refused(name):
    assert names.new_label_fault(name) == "use no spaces and none of the signs , / |, and no hyphen at its start"


@pytest.mark.parametrize("name", ["web_1", "_dmarc.example.com", "WEB_", "a.b_c"])
def test_instances_may_have_underscores(name):
    assert names.instance_name_fault(name) is None and names.host_name_fault(name) is not None


@pytest.mark.parametrize(
    "name", ["", "..", "a..b", ".a", "a.", "-a", "a/b", "a b", "naïve", "a+b", "1.2.3.4", "a" * 254]
)
def test_other_things_are_no_names_of_instances(name):
    assert names.instance_name_fault(name) is not None


@pytest.mark.parametrize("path", ["/srv/ganeti", "/srv/päth", "/", "/srv/a b", "/srv/..a"])
def test_absolute_paths(path):
    assert names.absolute_path_fault(path) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("srv", "absolute"),
        ("", "absolute"),
        ("/srv/../etc", "'..'"),
        ("/srv/./a", "doubled"),
        ("//srv", "doubled"),
        ("/srv//a", "doubled"),
        ("/srv/", "final slashes: /srv"),
        ("/srv/" + "a" * 256, "part of it is too long"),
        ("/srv/" + "ä" * 128, "part of it is too long"),
        ("/a" * 600, "too long: it has 1200 bytes"),
    ],
)
def test_paths_that_are_not_absolute_or_not_in_their_usual_form(path, why):
    assert why in (names.absolute_path_fault(path) or "")


def test_relative_paths():
    assert all(names.relative_path_fault(path) is None for path in ("a", "a/b", "a/", "./a", "", "a..b"))
    assert all(names.relative_path_fault(path) is not None for path in ("/a", "..", "a/../../b", "a" * 256))


def test_names_of_operating_systems_and_programs():
    assert all(names.os_name_fault(name) is None for name in ("debian", "debian+trixie", "a_1.2-x+v+w", "deb+"))
    assert all(names.os_name_fault(name) is not None for name in ("", "../x", "a/b", ".a", "a b", "a+../b", "-a"))
    assert all(names.program_name_fault(name) is None for name in ("hail", "my hail", "."))
    assert all(names.program_name_fault(name) is not None for name in ("../hail", "/bin/hail", "a/.."))


def test_a_refused_text_is_shown_on_one_short_line():
    assert names.shown("a\nb\x1b\u2028") == "a\\nb\\x1b\\u2028"
    assert len(names.shown("x" * 1000)) == 61
