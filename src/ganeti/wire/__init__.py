# SPDX-License-Identifier: BSD-2-Clause
"""Outside formats, bytes to types and back: LUXI, job file, ssconf, iallocator, query filter."""
