# SPDX-License-Identifier: BSD-2-Clause
"""Node calls: declaration and handler together."""
