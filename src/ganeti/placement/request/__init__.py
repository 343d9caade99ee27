# SPDX-License-Identifier: BSD-2-Clause
"""What may be asked of placement, and how the allocator protocol's dictionaries are read."""
