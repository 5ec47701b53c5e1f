// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/csr.hpp"

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI::opencl {

using namespace opencl_c;

csr csr_of(quarry_heap heap, quarry_graph* graph) {
  std::vector<std::pair<std::uint32_t, quarry_ref>> nodes;  // by id
  for (std::uint64_t bucket = 0; bucket < quarry_map_buckets(graph); ++bucket) {
    quarry_ref node = *quarry_map_bucket(heap, graph, static_cast<uint>(bucket));
    for (; node != 0; node = quarry_map_entry_at(heap, node)->chain)
      nodes.emplace_back(quarry_map_entry_at(heap, node)->key, node);
  }
  std::sort(nodes.begin(), nodes.end());
  csr result;
  std::unordered_map<quarry_ref, std::uint32_t> index_of;
  index_of.reserve(nodes.size());
  for (auto const& [id, node] : nodes) {
    index_of.emplace(node, static_cast<std::uint32_t>(result.ids.size()));
    result.ids.push_back(id);
  }
  result.offsets.push_back(0);
  for (auto const& [id, node] : nodes) {
    for (quarry_ref link = *quarry_map_value(heap, node); link != 0;
         link = quarry_list_next(heap, link)) {
      auto const target = static_cast<quarry_graph_link const*>(quarry_at(heap, link))->target;
      auto const found = index_of.find(target);
      if (found == index_of.end())
        throw bad_argument{"opencl::csr_of: an edge of vertex " + std::to_string(id) +
                           " leads to reference " + std::to_string(target) +
                           ", which is no vertex of the graph"};
      result.targets.push_back(found->second);
    }
    std::sort(result.targets.begin() + static_cast<std::ptrdiff_t>(result.offsets.back()),
              result.targets.end());
    result.offsets.push_back(result.targets.size());
  }
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::opencl
