# SPDX-License-Identifier: BSD-2-Clause
"""Plans and scenarios: drawn, played, checked, told as stories, made short."""
