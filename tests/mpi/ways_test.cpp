// SPDX-License-Identifier: Apache-2.0
#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/extension.hpp"
#include "mpi/mailbox.hpp"
#include "mpi/message_parts.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace quarry::test {
namespace ways_test {

constexpr std::uint32_t slots = 4;
constexpr std::uint32_t senders = 3;
constexpr std::uint32_t of_each = 40;
constexpr std::uint32_t extension_units = 32;
using mailbox = mpi::basic_mailbox<slots>;

/// Words on their way to another process. They arrive in any order, but for the word of a block: it
/// arrives after the halves of the block, of which any may be first.
class network {
 public:
  explicit network(std::uint64_t seed) : state_{seed * 2 + 1} {}
  void put(std::uint64_t& word, std::uint64_t value) { waiting_.push_back({&word, value, {}}); }
  void put_block(char* to, char const* data, std::size_t size, std::uint64_t& word,
                 std::uint64_t value) {
    std::size_t const half = size / 2;
    half_block const first{to, {data, data + half}};
    half_block const second{to + half, {data + half, data + size}};
    waiting_.push_back({&word, value, {first, second}});
    if (random(2) == 0) std::swap(waiting_.back().block[0], waiting_.back().block[1]);
  }
  void deliver_some() {
    // another lane may deliver words at each store
    for (auto count = random(waiting_.size() + 1); count != 0 && !waiting_.empty(); --count) {
      std::swap(waiting_[random(waiting_.size())], waiting_.back());
      late_word& late = waiting_.back();
      if (!late.block.empty()) {
        std::memcpy(late.block.back().to, late.block.back().data.data(),
                    late.block.back().data.size());
        late.block.pop_back();
        continue;
      }
      auto const [word, value, none] = late;
      waiting_.pop_back();
      simt::atomic_ref<std::uint64_t>{*word}.store(value, simt::release);
    }
  }

 private:
  struct half_block {
    char* to;
    std::vector<char> data;
  };
  struct late_word {
    std::uint64_t* word;
    std::uint64_t value;
    std::vector<half_block> block;  // that arrives before the word
  };
  std::size_t random(std::size_t end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % end;
  }
  std::vector<late_word> waiting_;
  std::uint64_t state_;
};

/// A way on which no memory is shared.
class network_way {
 public:
  explicit network_way(network& through) : through_{&through} {}
  [[nodiscard]] static bool is_near() { return false; }
  [[nodiscard]] static bool is_mapped() { return false; }
  template <class T>
  [[nodiscard]] static T* reach(T* place) {
    return place;
  }
  static std::uint64_t draw(std::uint64_t& word, std::uint64_t change) {
    return mpi::near_way::draw(word, change);
  }
  static std::uint64_t hint(std::uint64_t& word) { return mpi::near_way::hint(word); }
  static std::uint64_t look(std::uint64_t& word) { return mpi::near_way::look(word); }
  void put(std::uint64_t& word, std::uint64_t value) const { through_->put(word, value); }
  void put_block(char* to, char const* data, std::size_t size, std::uint64_t& word,
                 std::uint64_t value) const {
    through_->put_block(to, data, size, word, value);
  }

 private:
  network* through_;
};

/// Message i of a sender has this many words, in its slot, or in the slot's extension or block.
std::uint32_t words_of(std::uint32_t i) { return i % 20; }
constexpr std::uint32_t least_in_block = 17;
constexpr std::size_t block_bytes = 128;
std::uint32_t word_of(std::uint32_t sender, std::uint32_t i, std::uint32_t k) {
  return sender * 1'000'000 + i * 100 + k;
}

struct run_state {
  explicit run_state(std::uint64_t seed) : through{seed} { box.initialise(); }
  mailbox box;
  std::uint64_t extensions[slots * extension_units] = {};
  char blocks[slots][block_bytes] = {};
  network through;
  std::uint32_t received[senders] = {};
  std::uint32_t wrong = 0;

  [[nodiscard]] mpi::slot_extensions all_extensions() { return {extensions, extension_units}; }

  void send(std::uint32_t sender) {
    for (std::uint32_t i = 0; i < of_each; ++i) {
      mpi::mail_slot<slots, network_way> slot{box, network_way{through}};
      while (!slot.is_free()) {
        through.deliver_some();
        simt::pause();
        slot.look();
      }
      std::uint32_t const words = words_of(i);
      mpi::envelope const head{i, sender, 0};
      auto const word = [&](std::uint32_t k) { return word_of(sender, i, k); };
      if (words <= mailbox::most_words) {
        slot.write({head.tag, head.source, words * 4}, words, word);
        continue;
      }
      std::vector<std::uint32_t> data;
      for (std::uint32_t k = 0; k < words; ++k) data.push_back(word(k));
      if (words >= least_in_block) {
        mpi::envelope const of_block{head.tag, head.source,
                                     mpi::envelope::is_long | mpi::envelope::is_elsewhere};
        slot.write_with_block(
            of_block, 5, [&](std::uint32_t k) { return k == 0 ? words * 4 : k; },
            blocks[slot.ticket() % slots], reinterpret_cast<char const*>(data.data()), words * 4);
        continue;
      }
      slot.write_long(head, words * 4);
      mpi::put_numbered(slot.way(), {all_extensions().of(slot.ticket() % slots), slot.number()},
                        reinterpret_cast<char const*>(data.data()), words * 4);
    }
  }

  void receive() {
    mpi::mail_position position{};
    mpi::mail_reader<slots> reader{box, position, all_extensions()};
    for (std::uint32_t i = 0; i < senders * of_each; ++i) {
      mpi::mail_reader<slots>::arrival found;
      while (!reader.look(found)) {
        through.deliver_some();
        simt::pause();
      }
      std::uint32_t const size = found.size();
      std::vector<std::uint32_t> data(size / 4);
      if ((found.head.about & mpi::envelope::is_elsewhere) != 0) {
        reader.acquire();
        std::memcpy(data.data(), blocks[(reader.number() - 1) % slots], size);
        std::vector<std::uint32_t> later(4);  // words of the slot
        read(reader.later_units(), reader.number(), later);
        for (std::uint32_t k = 0; k < later.size(); ++k) wrong += later[k] != k + 1;
      } else if (found.is_long()) {
        read(reader.extension(), reader.number(), data);
      } else if (!data.empty()) {
        std::vector<std::uint32_t> later(data.size() - 1);
        data[0] = found.words[0];
        read(reader.later_units(), reader.number(), later);
        std::copy(later.begin(), later.end(), data.begin() + 1);
      }
      reader.take();
      std::uint32_t const sender = found.head.source;
      if (sender >= senders || found.head.tag != received[sender]++ ||
          data.size() != words_of(found.head.tag)) {
        ++wrong;
        continue;
      }
      for (std::uint32_t k = 0; k < data.size(); ++k)
        wrong += data[k] != word_of(sender, found.head.tag, k);
    }
  }

  /// Waits for each word by itself, so that the network goes on meanwhile.
  void read(std::uint64_t* units, std::uint32_t number, std::vector<std::uint32_t>& data) {
    for (std::size_t k = 0; k < data.size(); ++k) {
      simt::atomic_ref<std::uint64_t> const unit{units[k]};
      while (static_cast<std::uint32_t>(unit.load(simt::relaxed) >> 32) != number) {
        through.deliver_some();
        simt::pause();
      }
      data[k] = static_cast<std::uint32_t>(unit.load(simt::relaxed));
    }
  }
};

TEST(Ways, MessagesArriveWholeAndInOrderThroughANetworkThatReordersWordsAndBlocks) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : interleavings(4)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_state state{seed};
    simt::launch_fibers({1, senders + 1}, {.seed = seed, .switches = 64}, [&] {
      auto const lane = static_cast<std::uint32_t>(simt::this_place().rank());
      if (lane == senders) {
        state.receive();
      } else {
        state.send(lane);
      }
    });
    for (std::uint32_t const received : state.received) EXPECT_EQ(received, of_each);
    EXPECT_EQ(state.wrong, 0u);
  }
}

TEST(Ways, BlocksShareTheirBudgetAndAreLongerThanExtensions) {
  using mpi::block_bytes_for;
  constexpr bytes budget = bytes{256} << 20;
  constexpr bytes most = bytes{4} << 20;
  EXPECT_EQ(block_bytes_for(budget, 1, most), most);
  EXPECT_EQ(block_bytes_for(budget, 12, most), most);
  EXPECT_EQ(block_bytes_for(budget, 1'000'000, most), 0u);
  for (std::uint32_t ranks = 1; ranks < 20'000; ranks += 7) {
    bytes const size = block_bytes_for(budget, ranks, most);
    EXPECT_EQ(size % 128, 0u);
    EXPECT_LE(size * mpi::blocks_of_rank * ranks, budget);
    EXPECT_TRUE(size == 0 || size > mpi::most_extended) << ranks;
  }
}

}  // namespace ways_test
}  // namespace quarry::test
