# SPDX-License-Identifier: BSD-2-Clause
"""The pages of `docs/reference/`, written from the declarations: ``python -m ganeti.reference``.

Each module here that has `pages` gives some of them: path below `docs/reference/`, and text.
"""
