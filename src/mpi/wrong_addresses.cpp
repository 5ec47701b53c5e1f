// SPDX-License-Identifier: Apache-2.0
#include "wrong_addresses.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr std::array wrong_kinds{fault_kind::double_free, fault_kind::foreign_pointer,
                                 fault_kind::interior_pointer};

}  // namespace

std::string describe_wrong_addresses(std::vector<heap const*> const& heaps, std::uint64_t others,
                                     std::function<std::uint64_t(fault const&)> const& rank_of) {
  std::uint64_t count = others;
  for (heap const* const each : heaps)
    for (fault_kind const kind : wrong_kinds) count += each->fault_count(kind);
  if (count == 0) return {};
  std::ostringstream text;
  text << "quarry-mpirun: free or realloc got an address that is not allocated, and changed "
          "nothing: "
       << count << (count == 1 ? " time" : " times");
  for (heap const* const each : heaps) {
    auto const first = each->first_fault();
    if (!first || std::ranges::find(wrong_kinds, first->kind) == wrong_kinds.end()) continue;
    text << ", 0x" << std::hex << first->address << std::dec;
    if (rank_of) text << " by rank " << rank_of(*first);
    break;
  }
  text << '\n';
  return text.str();
}

}  // namespace quarry::inline QUARRY_ABI::mpi
