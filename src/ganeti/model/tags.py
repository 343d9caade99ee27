# SPDX-License-Identifier: BSD-2-Clause
"""What a tag may be, and how many an object may have (protocols, section 17)."""

import re
from collections.abc import Iterable
from typing import Final

from ganeti.base.errors import TagError
from ganeti.base.names import shown

LONGEST: Final = 128
MOST: Final = 4096
"""Tags on one object."""
_ALLOWED: Final = re.compile(r"[\w.+*/:@-]+")


def check_tag(tag: str) -> None:
    """Raise `TagError` for what cannot be a tag."""
    if not tag:
        raise TagError("Tags cannot be empty: leave the empty one out")
    if len(tag) > LONGEST:
        raise TagError(f"Tag '{tag[:20]}…' is too long: it has {len(tag)} characters, and may have {LONGEST}")
    if not _ALLOWED.fullmatch(tag):
        raise TagError(
            f"Tag '{shown(tag)}' contains invalid characters: use letters, digits and the signs . + * / : @ _ -"
        )


def with_tags(tags: Iterable[str], added: Iterable[str]) -> list[str]:
    """*tags* and those *added*, in order, each once; raises `TagError` where that makes too many."""
    found = sorted({*tags, *added})
    if len(found) > MOST:
        raise TagError(f"There would be {len(found)} tags on one object: it may have {MOST}, remove some first")
    return found
