// SPDX-License-Identifier: Apache-2.0
// Containers that live on a heap, for kernels.
#pragma once

#include "quarry/device/dynamic_graph.hpp"
#include "quarry/device/graph_kernels.hpp"
#include "quarry/device/hash_map.hpp"
#include "quarry/device/hash_map_owner.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/device/list.hpp"
#include "quarry/device/string.hpp"
#include "quarry/device/vector.hpp"
