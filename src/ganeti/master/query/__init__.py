# SPDX-License-Identifier: BSD-2-Clause
"""The query language, and the fields of each kind: one row a field."""
