// SPDX-License-Identifier: Apache-2.0
// Everything that poisons memory, and its dependencies, for poison_symbols.py to compile.
#include "quarry/host.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/platform/simulated_pages.hpp"

template class quarry::binned_resource<quarry::host_resource, quarry::host_resource>;
template class quarry::fixed_size_resource<quarry::host_resource>;
template class quarry::monotonic_resource<quarry::host_resource>;
template class quarry::pool<quarry::host_resource>;
template class quarry::pool<quarry::simulated_resource>;
template class quarry::size_cache_resource<quarry::host_resource>;
template class quarry::stitched_pool<quarry::host_pages>;
template class quarry::stitched_pool<quarry::simulated_pages>;
template class quarry::thread_arenas<quarry::host_resource>;

// Adaptors that do not poison memory themselves.
template class quarry::statistics_resource<quarry::host_resource>;
template class quarry::limited_resource<quarry::host_resource>;
template class quarry::failure_callback_resource<quarry::host_resource>;
template class quarry::synchronized_resource<quarry::pool<quarry::host_resource>>;
template class quarry::tracked_resource<quarry::host_resource>;

bool poisons(quarry::host_resource& plain,
             quarry::statistics_resource<quarry::host_resource>& adaptor) {
  return quarry::detail::is_poisoned(plain) && quarry::detail::is_poisoned(adaptor) &&
         quarry::detail::has_address_sanitizer;
}
bool const& sanitizer_state() { return quarry::detail::has_address_sanitizer; }
