# SPDX-License-Identifier: BSD-2-Clause
"""gnt-filter: its commands, and what they print."""
