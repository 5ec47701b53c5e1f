// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <array>
#include <span>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// What a file of unknown format probably is, and what to do; empty if nothing is known about it.
/// `first_bytes`: the first bytes of the file.
[[nodiscard]] inline std::string_view format_hint(std::span<unsigned char const> first_bytes) {
  std::string_view const text{reinterpret_cast<char const*>(first_bytes.data()),
                              first_bytes.size()};
  // the opcodes of an empty dict or list, and of its memo
  constexpr std::array<std::string_view, 6> old_pickles{"(dp", "(lp", "}q", "]q", "(dq", "(lq"};
  for (std::string_view const each : old_pickles) {
    if (text.starts_with(each))
      return "It looks like a pickle of protocol 0 or 1. Write it with protocol 2 or later: "
             "torch.cuda.memory._dump_snapshot(FILE), or pickle.dump(snapshot, file)";
  }
  if (text.starts_with("PK\x03\x04"))
    return "It looks like a file of torch.save. Write the snapshot with "
           "torch.cuda.memory._dump_snapshot(FILE), or pickle.dump(snapshot, file)";
  if (text.find("RMM LOG BEGIN") != std::string_view::npos ||
      text.find("[A][Stream ") != std::string_view::npos)
    return "It looks like RMM's debug log (RMM_DEBUG_LOG_FILE), which has failures only. Put an "
           "rmm::mr::logging_resource_adaptor around the resource; in Python, call "
           "rmm.enable_logging()";
  if ((text.starts_with('{') || text.starts_with('[')) &&
      (text.find("\"device_traces\"") != std::string_view::npos ||
       text.find("\"segments\"") != std::string_view::npos))
    return "It looks like a snapshot of PyTorch as JSON. Pickle it: "
           "torch.cuda.memory._dump_snapshot(FILE)";
  constexpr std::array<std::string_view, 3> compressed{
      "\xfd"
      "7zXZ",
      "\x28\xb5\x2f\xfd", "BZh"};
  for (std::string_view const each : compressed) {
    if (text.starts_with(each))
      return "It is compressed, but not by gzip. Decompress it with xz -d, zstd -d or bzip2 -d";
  }
  return {};
}

}  // namespace quarry::inline QUARRY_ABI::trace
