# SPDX-License-Identifier: BSD-2-Clause
"""What 3.1 has outside is there, or listed in `docs/reference/open.md`; what is listed there is missing."""

from tests import open_page


def test_what_is_missing_is_listed_with_a_reason():
    assert open_page.gaps() == set(open_page.listed()), "run python -m tests.open_page"
    assert all(open_page.listed().values())


def test_the_page_is_fresh():
    assert open_page.PAGE.read_text() == open_page.page(open_page.listed()), "run python -m tests.open_page"


def test_each_part_of_the_specification_is_read(monkeypatch):
    monkeypatch.setattr(open_page.generate, "declared", list)
    monkeypatch.setattr(open_page, "REGISTRY", {})
    kinds = [kind for kind, _ in open_page.gaps()]
    assert (kinds.count("command"), kinds.count("opcode")) == (132, 79)
