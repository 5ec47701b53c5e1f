// SPDX-License-Identifier: Apache-2.0
// Everything of host/ that needs no CUDA at compile time.
#pragma once

#include "quarry/host/aligned_resource.hpp"
#include "quarry/host/binned_resource.hpp"
#include "quarry/host/callback_resource.hpp"
#include "quarry/host/counted_resource.hpp"
#include "quarry/host/cuda_pages.hpp"
#include "quarry/host/cuda_resources.hpp"
#include "quarry/host/file_resource.hpp"
#include "quarry/host/fixed_size_resource.hpp"
#include "quarry/host/host_pages.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/limited_resource.hpp"
#include "quarry/host/monotonic_resource.hpp"
#include "quarry/host/pool.hpp"
#include "quarry/host/registry.hpp"
#include "quarry/host/retrying_resource.hpp"
#include "quarry/host/standard_resource.hpp"
#include "quarry/host/stitched_pool.hpp"
#include "quarry/host/synchronized_resource.hpp"
#include "quarry/host/tracked_resource.hpp"
