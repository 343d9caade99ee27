# SPDX-License-Identifier: BSD-2-Clause
"""What only the master decides: configuration, locks, queue, queries, operations."""
