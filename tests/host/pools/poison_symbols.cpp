// SPDX-License-Identifier: Apache-2.0
// Everything that poisons, and what it is built of, for poison_symbols.py to compile.
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

// In what does not poison itself.
template class quarry::statistics_resource<quarry::host_resource>;
template class quarry::limited_resource<quarry::host_resource>;
template class quarry::failure_callback_resource<quarry::host_resource>;
template class quarry::synchronized_resource<quarry::pool<quarry::host_resource>>;
template class quarry::tracked_resource<quarry::host_resource>;

bool poisons(quarry::host_resource& plain,
             quarry::statistics_resource<quarry::host_resource>& on_it) {
  return quarry::detail::is_poisoned(plain) && quarry::detail::is_poisoned(on_it) &&
         quarry::detail::has_address_sanitizer;
}
bool const& refers_to_it() { return quarry::detail::has_address_sanitizer; }
