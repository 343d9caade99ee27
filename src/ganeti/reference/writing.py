# SPDX-License-Identifier: BSD-2-Clause
"""All pages together: which there should be, which are stale."""

import importlib
import pkgutil
from pathlib import Path

from ganeti import reference

DIRECTORY = Path(__file__).parents[3] / "docs" / "reference"


def wanted() -> dict[Path, str]:
    """Give what each page should contain."""
    pages: dict[Path, str] = {}
    for info in pkgutil.iter_modules(reference.__path__, f"{reference.__name__}."):
        if info.name.endswith("__main__"):
            continue
        make = getattr(importlib.import_module(info.name), "pages", None)
        if make is not None:
            pages |= {DIRECTORY / name: text for name, text in make().items()}
    return pages


def stale() -> list[str]:
    """Name the pages that do not say what the declarations say."""
    return [path.name for path, text in wanted().items() if not path.exists() or path.read_text() != text]


def write() -> list[Path]:
    """Write the stale pages; gives their paths."""
    written = []
    for path, text in wanted().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            written.append(path)
    return written
