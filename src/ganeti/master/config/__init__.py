# SPDX-License-Identifier: BSD-2-Clause
"""The configuration behind WConfD: change stream, import, invariants, publication, file layout."""
