// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of senders and the receiver of one mailbox. The model runs the mailbox
// itself, and not a copy of its protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/mailbox.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <string>
#include <vector>

namespace quarry::test {
namespace mailbox_model_test {

constexpr std::size_t max_messages = 6;

/// A mailbox and the messages of its senders: message i has the tag i.
class observed_mailbox {
 public:
  void begin() {
    received_.clear();
    replaced_.clear();
    mpi::mailbox::initialise(owner_);
    for (std::size_t i = 0; i < max_messages; ++i) {
      messages_[i] = {};
      messages_[i].tag = static_cast<std::int32_t>(i);
      messages_[i].next = &messages_[i];  // not null: the sender must set it
    }
  }
  /// Sends messages [first, last).
  void send(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) mpi::mailbox{owner_}.push(&messages_[i]);
  }
  /// Looks for a message once.
  bool receive_one() {
    mpi::message* replaced = nullptr;
    mpi::message const* const got = mpi::mailbox{owner_}.pop(replaced);
    if (got == nullptr) return false;
    received_.push_back(got->tag);
    // The receiver may free it now: no sender may change it any more.
    replaced->next = replaced;
    replaced_.push_back(replaced);
    return true;
  }
  /// Waits for `count` messages. Looks twice before each pause, so that two looks can fall between
  /// the two steps of a send.
  void receive(std::size_t count) {
    while (received_.size() < count)
      if (!receive_one() && !receive_one()) simt::pause();
  }

  /// All messages must have been received, once each, and those of a sender in order. `starts` are
  /// the first messages of the senders and the number of all messages.
  [[nodiscard]] std::string check(std::vector<std::size_t> const& starts) {
    while (received_.size() <= max_messages && receive_one()) {
    }
    for (auto const* const replaced : replaced_)
      if (replaced->next != replaced) return "a sender changed a message that was replaced";
    if (received_.size() != starts.back())
      return std::to_string(received_.size()) + " messages were received";
    for (std::size_t sender = 0; sender + 1 < starts.size(); ++sender) {
      auto next = static_cast<std::int32_t>(starts[sender]);
      auto const end = static_cast<std::int32_t>(starts[sender + 1]);
      for (std::int32_t const tag : received_)
        if (tag >= next && tag < end && tag != next++) return "messages of a sender changed places";
      if (next != end) return "a message was lost";
    }
    return "";
  }

 private:
  mpi::rank_state owner_{};
  std::array<mpi::message, max_messages> messages_{};
  std::vector<std::int32_t> received_;
  std::vector<mpi::message*> replaced_;
};

void explore_all(std::vector<std::size_t> const& starts, std::size_t received,
                 explore_options options) {
  observed_mailbox observed;
  auto const result = explore(
      [&] {
        observed.begin();
        scenario run;
        for (std::size_t sender = 0; sender + 1 < starts.size(); ++sender)
          run.lanes.emplace_back(
              [&, sender] { observed.send(starts[sender], starts[sender + 1]); });
        run.lanes.emplace_back([&] { observed.receive(received); });
        run.check = [&] { return observed.check(starts); };
        return run;
      },
      options);
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules\n";
}

TEST(MailboxModel, ASenderAndTheReceiverInEveryOrder) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 2}, 2, {.preemptions = 100});
}

TEST(MailboxModel, TwoSendersLoseNoMessageAndKeepTheirOrder) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 2, 4}, 4, {.preemptions = 3});
}

TEST(MailboxModel, ThreeSendersLoseNoMessage) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 1, 2, 4}, 4, {.preemptions = 2});
}

TEST(MailboxModel, MessagesThatTheReceiverLeavesAreFoundLater) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 3, 5}, 1, {.preemptions = 3});
}

}  // namespace mailbox_model_test
}  // namespace quarry::test
