# SPDX-License-Identifier: BSD-2-Clause
"""Numbers, strings and JSON errors as 3.1's tools print and read them."""
