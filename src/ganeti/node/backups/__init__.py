# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups on a node: where they are kept, and what they are read from."""
