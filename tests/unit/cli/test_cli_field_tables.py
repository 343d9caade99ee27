# SPDX-License-Identifier: BSD-2-Clause
"""What follows from the rows of fields: list commands, their table, and the page."""

from ganeti.cli import field_tables
from ganeti.cli.commands import listing
from ganeti.reference.fields import pages


def test_lists_can_print_what_fields_say_of_themselves():
    said = {field.shown for resource in field_tables.resources() for field in resource.fields.values()}
    assert said - {""} == set(listing.SHOWN)


def test_the_usual_columns_are_fields():
    for resource in field_tables.resources():
        assert set(resource.columns.split()) <= set(resource.fields), resource.name


def test_each_program_with_a_resource_lists_its_fields():
    lines = {command.line for command in field_tables.commands()}
    assert {f"{each.program} list-fields" for each in field_tables.resources() if each.program} <= lines


def test_numbered_fields_share_a_row_of_the_page():
    page = pages()["fields.md"]
    assert page.count("`disk.size/N`") == 1 and "disk.size/0" not in page
    assert "| `mfree` | MFree | unit, live |" in page
