# SPDX-License-Identifier: BSD-2-Clause
"""What an operation would do, found out by letting it act on a draft; and whether that still holds. Pure."""
