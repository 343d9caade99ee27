# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit."""
