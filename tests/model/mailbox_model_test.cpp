// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of senders and the receiver of one mailbox. The model runs the mailbox
// itself, and not a copy of its protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/extension.hpp"
#include "mpi/mailbox.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace quarry::test {
namespace mailbox_model_test {

constexpr std::uint32_t slots = 2;

/// A mailbox of two slots and the messages of its senders. Message i has the tag i and, in each
/// word, a value that depends on i and on the word. Messages with an even tag have 1 word, the
/// others 5. Those with the tags 3, 7, ... have them in the slot's extension. They, and messages 1,
/// 4, 7, ..., are written as on a GPU: their later words come after their head.
class observed_mailbox {
 public:
  explicit observed_mailbox(std::uint32_t first) : first_{first} {}

  void begin() {
    received_.clear();
    problem_.clear();
    memory_.initialise(first_);
    for (auto& unit : extensions_) unit = std::uint64_t{first_} << 32;
    position_ = {first_, first_};
  }
  /// Sends messages [first, last).
  void send(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last; ++i) {
      mpi::mail_slot<slots> slot{memory_};
      while (!slot.is_free()) {
        simt::pause();
        slot.look();
      }
      auto const word = [&](std::uint32_t k) { return value(i, k); };
      if (i % 4 == 3) {
        char data[5 * 4];
        for (std::uint32_t k = 0; k < 5; ++k) put(data, k, value(i, k));
        slot.write_long({i, 0, 0}, sizeof(data));
        mpi::numbered_units const units{all_extensions().of(slot.ticket() % slots), slot.number()};
        units.store<1>(data, sizeof(data), mpi::whole_share);
        continue;
      }
      mpi::envelope const head{i, 0, words(i) * 4};
      if (i % 3 == 1) {
        slot.write_units(head, words(i), word);
      } else if (i % 3 == 2) {
        slot.write_ordered(head, words(i), word);
      } else {
        slot.write(head, words(i), word);
      }
    }
  }
  /// Looks for a message once.
  bool receive_one() {
    mpi::mail_reader<slots> reader{memory_, position_, all_extensions()};
    mpi::mail_reader<slots>::arrival arrived;
    if (!reader.look(arrived)) return false;
    std::uint32_t const tag = arrived.head.tag;
    received_.push_back(tag);
    char data[5 * 4] = {};
    put(data, 0, arrived.words[0]);
    if (arrived.size() != words(tag) * 4) {
      problem_ = "a message has another's size";
    } else if (arrived.is_long()) {
      mpi::numbered_units const units{reader.extension(), reader.number()};
      units.load<1, 1>(data, arrived.size(), mpi::whole_share);
    } else if (words(tag) > 1) {
      mpi::numbered_units const units{reader.later_units(), reader.number()};
      units.load<4, 1>(data + 4, arrived.size() - 4, mpi::whole_share);
    }
    for (std::uint32_t k = 0; k < words(tag); ++k)
      if (word_at(data, k) != value(tag, k)) problem_ = "a message has a word of another";
    reader.take();
    return true;
  }
  /// Waits for `count` messages.
  void receive(std::size_t count) {
    while (received_.size() < count)
      if (!receive_one()) simt::pause();
    mpi::mail_reader<slots> reader{memory_, position_, all_extensions()};
    if (reader.has_slots_to_return()) reader.return_slots();
  }

  /// All messages must have been received, once each, and those of a sender in order. `starts` are
  /// the first messages of the senders and the number of all messages.
  [[nodiscard]] std::string check(std::vector<std::uint32_t> const& starts) {
    while (received_.size() <= starts.back() && receive_one()) {
    }
    if (!problem_.empty()) return problem_;
    if (received_.size() != starts.back())
      return std::to_string(received_.size()) + " messages were received";
    for (std::size_t sender = 0; sender + 1 < starts.size(); ++sender) {
      std::uint32_t next = starts[sender];
      std::uint32_t const end = starts[sender + 1];
      for (std::uint32_t const tag : received_)
        if (tag >= starts[sender] && tag < end && tag != next++)
          return "messages of a sender changed places";
      if (next != end) return "a message was lost";
    }
    return "";
  }

 private:
  static std::uint32_t words(std::uint32_t tag) { return tag % 2 == 0 ? 1 : 5; }
  static std::uint32_t value(std::uint32_t tag, std::uint32_t word) {
    return 1000 * (tag + 1) + word;
  }

  static void put(char* data, std::uint32_t word, std::uint32_t value) {
    std::memcpy(data + 4 * word, &value, 4);
  }
  static std::uint32_t word_at(char const* data, std::uint32_t word) {
    std::uint32_t value;
    std::memcpy(&value, data + 4 * word, 4);
    return value;
  }
  [[nodiscard]] mpi::slot_extensions all_extensions() { return {extensions_, extension_units}; }

  static constexpr std::uint32_t extension_units = 8;

  std::uint32_t first_;
  mpi::basic_mailbox<slots> memory_{};
  alignas(16) std::uint64_t extensions_[slots * extension_units]{};
  mpi::mail_position position_{};
  std::vector<std::uint32_t> received_;
  std::string problem_;
};

/// `first` messages have passed. `received`: how many the receiver waits for; the others are looked
/// for at the end.
void explore_all(std::vector<std::uint32_t> const& starts, std::size_t received,
                 std::uint32_t preemptions, std::uint32_t first = 0) {
  observed_mailbox observed{first};
  expect_all_schedules_hold(
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
      {.preemptions = preemptions});
}

TEST(MailboxModel, ASenderFillsTheSlotsAndWaits) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 5}, 5, 3);
}

TEST(MailboxModel, TwoSendersLoseNoMessageAndKeepTheirOrder) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 2, 4}, 4, 2);
}

TEST(MailboxModel, ThreeSendersWaitForTwoSlots) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 1, 2, 4}, 4, 2);
}

TEST(MailboxModel, MessagesThatTheReceiverLeavesAreFoundLater) {
  QUARRY_TEST_USES_FIBERS();
  explore_all({0, 2, 3}, 1, 3);
}

TEST(MailboxModel, NumbersWrap) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const first :
       {0xfffffffdu, 0xfffffffeu, 0xffffffffu, 0x3ffffffeu, 0xbffffffeu})
    explore_all({0, 2, 4}, 4, 1, first);
}

TEST(MailboxModel, LongMessagesOfTwoSendersUseOneExtensionInTurn) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const first : {0u, mpi::mail_reader<slots>::first_wiped - 1})
    explore_all({0, 4, 8}, 8, 1, first);
}

/// A unit that a long message left in a slot 2^32 messages ago has the number of the next message.
/// The receiver has wiped it since, so the next long message is not taken before it is whole.
TEST(MailboxModel, UnitsOfOldMessagesAreWipedBeforeTheirNumberReturns) {
  mpi::basic_mailbox<slots> memory{};
  constexpr std::uint32_t wiped = mpi::mail_reader<slots>::first_wiped;
  memory.initialise(wiped - 1);
  mpi::mail_position position{wiped - 1, wiped - 1};
  std::uint64_t extensions[slots * 4] = {};
  mpi::mail_reader<slots> reader{memory, position, {extensions, 4}};
  mpi::mail_reader<slots>::arrival arrived;
  for (int i = 0; i < 3; ++i) {  // of the second, the slot is wiped
    mpi::mail_slot<slots> slot{memory};
    slot.write({0, 0, 20}, 5, [](std::uint32_t) { return 7u; });
    ASSERT_TRUE(reader.look(arrived));
    reader.take();
    auto const& used = memory.slots[(position.taken - 1) % slots];
    if (position.taken - 1 != wiped) continue;
    for (std::uint64_t const unit : used) EXPECT_EQ(unit, std::uint64_t{wiped + 1} << 32);
    for (std::uint32_t k = 0; k < 4; ++k) EXPECT_EQ(extensions[k], std::uint64_t{wiped + 1} << 32);
  }
}

}  // namespace mailbox_model_test
}  // namespace quarry::test
