# SPDX-License-Identifier: BSD-2-Clause
"""What placement means, in plain Python: values, scores, checks, moves, searches. The kernel is tested against it."""
