# SPDX-License-Identifier: BSD-2-Clause
"""The remote API `/2`: HTTP requests become LUXI calls (rapi)."""
