# SPDX-License-Identifier: BSD-2-Clause
"""What the maintenance daemon decides: which defects there are, and what is done next. Pure (S4.15-S4.42)."""
