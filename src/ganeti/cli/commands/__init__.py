# SPDX-License-Identifier: BSD-2-Clause
"""Commands that are declared beside the operations, and what they print."""
