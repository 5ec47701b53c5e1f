// SPDX-License-Identifier: Apache-2.0
#include "trace/replay/pool_replay.hpp"

namespace quarry::inline QUARRY_ABI::trace {

template std::unique_ptr<running_replay> replay_in_pool<chunk_arena<lowest_best_fit>>(
    replay_options const&);

}  // namespace quarry::inline QUARRY_ABI::trace
