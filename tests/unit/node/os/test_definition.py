# SPDX-License-Identifier: BSD-2-Clause
"""Finding OS definitions and saying what is wrong with them."""

from pathlib import Path

import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.node.os import definition


def test_a_whole_definition_is_valid_with_variants_and_parameters(node) -> None:
    place = node.definition(versions="20 15")
    (place / "variants.list").write_text("small\n# comment\n\nlarge\n")
    (place / "parameters.list").write_text("rate Beats per second\nack\n")
    found = definition.get(node.paths, "test+small")
    assert (found.name, found.valid, found.variants, found.api_version) == ("test", True, ["small", "large"], 20)
    assert found.parameters == [("rate", "Beats per second"), ("ack", "")]


def test_an_old_definition_has_neither_variants_nor_parameters(node) -> None:
    place = node.definition(versions="10")
    (place / "variants.list").write_text("small\n")
    (place / "verify").unlink()
    found = definition.get(node.paths, "test")
    assert (found.variants, found.parameters, found.api_version) == ([], [], 10)


def test_a_create_script_may_be_one_that_the_node_does_not_trust(node) -> None:
    place = node.definition()
    (place / "create").rename(place / "create_untrusted")
    found = definition.get(node.paths, "test")
    assert (found.valid, found.trusted) == (True, False)
    (place / "create_untrusted").chmod(0o644)
    with pytest.raises(PrerequisiteError, match="create_untrusted is not executable"):
        definition.get(node.paths, "test")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda place: (place / "rename").unlink(), "the script rename is missing"),
        (lambda place: (place / "verify").unlink(), "the script verify is missing"),
        (lambda place: (place / "create").chmod(0o644), "the script create is not executable"),
        (lambda place: (place / "ganeti_api_version").unlink(), "ganeti_api_version cannot be read"),
        (lambda place: (place / "ganeti_api_version").write_text("new\n"), "one whole number a line"),
        (lambda place: (place / "ganeti_api_version").write_text("30\n"), "this node knows 20, 15, 10"),
    ],
)
def test_a_broken_definition_says_what_is_wrong(node, damage, sentence: str) -> None:
    damage(node.definition())
    (found,) = definition.find_all(node.paths)
    assert not found.valid
    assert sentence in found.message
    with pytest.raises(PrerequisiteError, match="OS 'test' cannot be used"):
        definition.get(node.paths, "test")


def test_an_unknown_os_names_those_there_are(node) -> None:
    node.definition("debian")
    with pytest.raises(PrerequisiteError, match="OS 'suse' not known: there are debian"):
        definition.get(node.paths, "suse")
    with pytest.raises(PrerequisiteError, match="cannot be the name of an OS"):
        definition.get(node.paths, "../etc")


def test_the_first_directory_of_the_search_path_counts(node) -> None:
    first = node.definition("test")
    second = Path(node.paths.under("/usr/share/ganeti/os/test"))
    second.mkdir(parents=True)
    found = definition.find_all(node.paths)
    assert [(status.path, status.valid) for status in found] == [(str(first), True), (str(second), False)]
    assert "another test comes before it" in found[1].message


@pytest.mark.parametrize(
    ("name", "variants", "force", "wanted"),
    [
        ("test+small", "small", False, "small"),
        ("test+odd", "small", True, "odd"),
        ("test", "", False, ""),
        ("test+odd", "small", False, "there are small"),
        ("test", "small", False, r"needs a variant: write test\+VARIANT"),
        ("test+x", "", False, r"has no variants: leave '\+x' away"),
    ],
)
def test_variants_are_chosen_or_refused(node, name: str, variants: str, force: bool, wanted: str) -> None:
    place = node.definition()
    (place / "variants.list").write_text(variants)
    status = definition.get(node.paths, name)
    if " " in wanted:
        with pytest.raises(PrerequisiteError, match=wanted):
            definition.choose_variant(status, name, force=force)
    else:
        assert definition.choose_variant(status, name, force=force) == wanted
