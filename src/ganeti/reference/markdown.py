# SPDX-License-Identifier: BSD-2-Clause
"""Markdown of texts that were not written for it."""

import inspect
import re


def paragraph(docstring: str) -> str:
    """The first paragraph of a docstring in one line, with emphasis as Markdown has it."""
    first = inspect.cleandoc(docstring).partition("\n\n")[0]
    return re.sub(r"``([^`]*)``", r"`\1`", " ".join(first.split()))


def cell(text: str) -> str:
    """A text that can stand in a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())).replace("<", "&lt;")
