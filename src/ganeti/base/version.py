# SPDX-License-Identifier: BSD-2-Clause
"""Which release this is, and the versions of the formats it speaks. Imports nothing: commands start with it."""

RELEASE = "3.1.0"
VCS = f"v{RELEASE}"
PROTOCOL = 3010000
CONFIGURATION = 3010000
OS_API = 20
EXPORT = 0
