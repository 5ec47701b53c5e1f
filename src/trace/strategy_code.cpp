// SPDX-License-Identifier: Apache-2.0
// The code that makes the pool of a setting.
#include "quarry/host/pools/heuristics.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/trace/tune.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr char resource[] = "quarry::device_resource{device}";

/// Designated initialisers, such as `{.first_block = 0, .next_block = 0}`.
class initialisers {
 public:
  initialisers& add(char const* name, std::string const& value) {
    text_ += text_.empty() ? "" : ", ";
    text_ += std::string{"."} + name + " = " + value;
    return *this;
  }
  initialisers& add(char const* name, std::uint64_t value) {
    return add(name, std::to_string(value));
  }
  /// Adds an option whose value is not the default.
  initialisers& add_unless(std::uint64_t default_value, char const* name, std::uint64_t value) {
    return value == default_value ? *this : add(name, value);
  }
  [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

/// The sizes of a pool's blocks.
initialisers options_of_blocks(pool_options const& pool) {
  return initialisers{}
      .add("first_block", pool.first_block)
      .add("next_block", pool.next_block)
      .add("growth_percent", pool.growth_percent);
}
std::string options_of_pool(pool_options const& pool) {
  return options_of_blocks(pool)
      .add_unless(pool_options{}.alignment, "alignment", pool.alignment)
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .add("coalesce", heuristic_code(pool.coalesce))
      .add_unless(0, "shrink_after", pool.shrink_after)
      .text();
}
/// Streams have no heuristic, and an alignment of 256 bytes at least.
std::string options_of_stream_pool(pool_options const& pool) {
  bytes const min_alignment = stream_pool_options{}.alignment;
  return options_of_blocks(pool)
      .add_unless(min_alignment, "alignment", std::max(pool.alignment, min_alignment))
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .text();
}
std::string options_of_stitched_pool(pool_options const& pool) {
  return initialisers{}
      .add("alignment", pool.alignment)
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .text();
}

}  // namespace

std::string code_of_pool(std::string_view placement, replay_options const& options) {
  bool const is_routed = options.routing != nullptr;
  return std::string{is_routed ? "quarry::routed_pool" : "quarry::pool"} +
         "<quarry::device_resource, " + std::string{placement} + "> memory{\n    " + resource +
         "," + (is_routed ? " quarry::routing_table::load(path)," : "") + "\n    " +
         options_of_pool(options.pool) +
         (options.rules == heuristic_rules::quarry ? "};\n" : "};  // by Quarry's rules\n");
}
std::string code_of_stitched_pool(replay_options const& options) {
  return "quarry::stitched_pool<quarry::cuda_pages> memory{\n    quarry::cuda_pages{device},\n"
         "    " +
         options_of_stitched_pool(options.pool) + "};\n";
}
std::string code_of_stream_pool(replay_options const& options) {
  return std::string{"quarry::stream_pool memory{\n    "} + resource +
         ", quarry::cuda_streams{},\n    " + options_of_stream_pool(options.pool) + "};\n";
}
std::string code_of_resource(replay_options const&) {
  return "quarry::device_resource memory{device};  // no pool\n";
}
std::string code_of_planned_pool(replay_options const& options) {
  return std::string{"quarry::planned_pool memory{\n    "} + resource +
         ", quarry::load_plan(path),\n    {.fallback = " + options_of_pool(options.pool) + "}};\n";
}
std::string code_of_planned_stream_pool(replay_options const& options) {
  return std::string{"quarry::planned_stream_pool memory{\n    "} + resource +
         ", quarry::cuda_streams{}, quarry::load_plan(path),\n    {.fallback = " +
         options_of_stream_pool(options.pool) + "}};\n";
}

std::string code_for(replay_options const& options) {
  strategy_entry const* const entry = entry_of(options.placement);
  if (entry == nullptr) throw bad_argument{"replay: there is no such strategy"};
  return entry->code(options);
}

}  // namespace quarry::inline QUARRY_ABI::trace
