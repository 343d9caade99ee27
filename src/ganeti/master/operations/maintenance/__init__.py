# SPDX-License-Identifier: BSD-2-Clause
"""Operations on incidents: what nodes say is wrong with them, and what comes of it."""
