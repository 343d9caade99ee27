# SPDX-License-Identifier: BSD-2-Clause
"""Taking over a running cluster of Ganeti 3.0 or 3.1, and giving it back (docs/operator/coming-over.md)."""
