# SPDX-License-Identifier: BSD-2-Clause
"""The names of the LUXI calls by which jobs ask LuxiD. They are the product's own; no client of 3.1 uses them."""

CONTINUE_CALL = "MayContinue"
INPUT_CALL = "DescribeForAllocator"
KEEP_CAPACITY_CALL = "KeepCapacity"
KNOWN_CAPACITY_CALL = "KnownCapacity"
PLACEMENT_CALL = "AnswerPlacement"
RENEW_GROUP_CALL = "RenewGroupState"
