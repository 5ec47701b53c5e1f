// SPDX-License-Identifier: Apache-2.0
// Containers that live on a heap, for kernels.
//
// Heap: a container of one lane (vector, string) keeps the heap that it is constructed with, and
// its destructor frees its memory. A container that lanes share (shared_vector, list, id_set,
// hash_map_ref, the graph) starts as zeroed memory, or `make` creates it. Its functions that
// allocate or free take the heap as an argument, and no destructor frees memory.
//
// Failure: nothing throws in a kernel. A function that only adds returns false if the heap has no
// memory, and changes nothing. A function with more outcomes returns a `change_result`. The heap
// records each failed allocation as a fault.
#pragma once

#include "quarry/device/dynamic_graph.hpp"
#include "quarry/device/graph_kernels.hpp"
#include "quarry/device/hash_map.hpp"
#include "quarry/device/hash_map_owner.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/device/list.hpp"
#include "quarry/device/string.hpp"
#include "quarry/device/vector.hpp"
