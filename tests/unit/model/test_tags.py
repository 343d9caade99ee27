# SPDX-License-Identifier: BSD-2-Clause
"""What can be a tag, and how many there can be."""

import pytest

from ganeti.base.errors import TagError
from ganeti.model.tags import LONGEST, MOST, check_tag, with_tags


@pytest.mark.parametrize(
    "tag", ["a", "htools:iextags:service", "owner@example.com/x*y+z", "-", "1.5", "x" * LONGEST, "büro"]
)
def test_tags(tag: str) -> None:
    check_tag(tag)


@pytest.mark.parametrize(
    ("tag", "sentence"),
    [
        ("", "Tags cannot be empty"),
        ("x" * (LONGEST + 1), "is too long: it has 129 characters, and may have 128"),
        ("a b", "'a b' contains invalid characters: use letters"),
        *((f"a{sign}", "contains invalid characters") for sign in "\n\t ,;|'\"$`\\\0!?#%&()=[]{}<>~^\u00a0"),
    ],
)
def test_what_is_no_tag(tag: str, sentence: str) -> None:
    with pytest.raises(TagError) as caught:
        check_tag(tag)
    assert sentence in str(caught.value)


def test_tags_are_kept_in_order_and_once() -> None:
    assert with_tags(["c", "a"], ["b", "a", "b"]) == ["a", "b", "c"]


def test_there_is_an_end_to_them() -> None:
    full = [str(number) for number in range(MOST)]
    assert len(with_tags(full, ["0"])) == MOST
    with pytest.raises(TagError, match="would be 4097 tags on one object: it may have 4096"):
        with_tags(full, ["another"])
