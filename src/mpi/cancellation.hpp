// SPDX-License-Identifier: Apache-2.0
// What the receiver does for a send that is cancelled (cancellation.cpp).
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The context of messages that ask the receiver to forget a message. No communicator has it.
inline constexpr std::uint32_t cancel_context = 0xffffff;

/// Removes the message with this address from the unexpected messages, if it is there, and tells
/// its sender. The message may not exist any more.
QUARRY_SLOW void take_back(rank_state& rank, message* sent);

}  // namespace quarry::inline QUARRY_ABI::mpi
