// SPDX-License-Identifier: Apache-2.0
// The blocks that the recorded allocator held at the chosen moment, and the allocations in them.
"use strict";


