# SPDX-License-Identifier: BSD-2-Clause
"""Every operation interrupted at every point."""
