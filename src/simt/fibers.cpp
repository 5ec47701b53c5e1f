// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/launch.hpp"

#include "fiber_lane.hpp"
#include "fiber_switches.hpp"
#include "launch_stacks.hpp"
#include "random_source.hpp"

#include <boost/context/fiber.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

namespace quarry::inline QUARRY_ABI::simt {
namespace {

namespace context = boost::context;

constexpr std::uint64_t max_lanes = 1u << 20;

/// The stacks outlive the fibers.
struct borrowed_stack {
  void deallocate(context::stack_context&) noexcept {}
};

}  // namespace

/// Runs all lanes of its part on one thread until all are done. It repeatedly chooses a random lane
/// among the ready lanes.
class scheduler {
 public:
  scheduler(grid lanes, fiber_schedule schedule, kernel_ref kernel)
      : schedule_{schedule}, random_{schedule.seed}, kernel_{kernel}, grid_{lanes} {
    std::uint64_t const all = std::uint64_t{lanes.blocks} * lanes.threads;
    std::uint64_t const first = std::min(schedule.part.first, all);
    std::uint64_t const end = first + std::min(schedule.part.count, all - first);
    is_part_ = end - first < all;
    if (schedule.stacks.base == nullptr) own_stacks_.emplace(end - first);
    first_ = first;
    for (std::uint64_t number = first; number < end; ++number) {
      auto const block = static_cast<std::uint32_t>(number / lanes.threads);
      auto const thread = static_cast<std::uint32_t>(number % lanes.threads);
      lanes_.push_back(std::make_unique<fiber_lane>(
          place{block, thread, lanes.blocks, lanes.threads}, schedule.part.number, *this));
      make_ready(*lanes_.back());
    }
    block_done_.resize(lanes.blocks, 0);
    block_waiting_.resize(lanes.blocks, 0);
    block_words_.resize(lanes.blocks, 0);
  }

  [[nodiscard]] std::uint64_t& block_word(std::uint32_t block) { return block_words_[block]; }

  void run() {
    if (schedule_.clock != nullptr) last_switch_ = schedule_.clock();
    for (std::size_t i = 0; i < lanes_.size(); ++i) start(*lanes_[i], i);
    while (done_ < lanes_.size() && !failure_) {
      if (!coalescing_.empty() && (ready_.empty() || random_.happens(16))) {
        release_group();
      } else if (must_wake_all()) {
        wake_all();
      } else if (!ready_.empty()) {
        resume(*ready_[random_.below(ready_.size())]);
      } else {
        failure_ = std::make_exception_ptr(deadlock{report()});
      }
    }
    stopping_ = true;
    for (auto& lane : lanes_) {
      if (lane->waiting != wait::done) resume(*lane);  // unwinds its stack
    }
    for (auto& lane : lanes_) switches_.destroy(lane->for_sanitizers);
    if (failure_) std::rethrow_exception(failure_);
  }

  /// Called on a lane's stack: other lanes run until this lane is ready and chosen.
  void suspend(fiber_lane& lane) {
    if (stopping_) throw stop{};
    switch_to_main(lane);
    if (stopping_) throw stop{};
  }

  /// The same for a lane that waits for another lane, which may run on another thread: after some
  /// rounds of such waits other threads get the processor. With few lanes it is more rounds,
  /// because a call of the system takes as long as many switches.
  void pause(fiber_lane& lane) {
    if (is_part_ && ++pauses_ >= ready_.size() + 64) {
      pauses_ = 0;
      yield_thread();
    }
    suspend(lane);
  }

  void block_on(fiber_lane& lane, wait reason) {
    lane.waiting = reason;
    remove_ready(lane);
    if (reason != wait::coalesce) return;
    lane.coalescing_index = coalescing_.size();
    coalescing_.push_back(&lane);
  }

  void make_ready(fiber_lane& lane) {
    lane.waiting = wait::ready;
    lane.ready_index = ready_.size();
    ready_.push_back(&lane);
  }

  void arrive_exchange(fiber_lane& lane) {
    for (lane_mask left = lane.members; left != 0; left &= left - 1) {
      auto const* sender = peer(lane, static_cast<std::uint32_t>(std::countr_zero(left)));
      if (sender == nullptr || sender->waiting != wait::exchange || sender->members != lane.members)
        return;
      if (sender->pending_operation != lane.pending_operation) {
        throw bad_state{"lanes of one group met in different operations: " + describe(lane) + ", " +
                        describe(*sender)};
      }
    }
    for (lane_mask left = lane.members; left != 0; left &= left - 1) {
      auto* receiver = peer(lane, static_cast<std::uint32_t>(std::countr_zero(left)));
      for (lane_mask senders = lane.members; senders != 0; senders &= senders - 1) {
        auto const index = static_cast<std::uint32_t>(std::countr_zero(senders));
        receiver->received[index] = peer(lane, index)->value;
      }
    }
    for (lane_mask left = lane.members; left != 0; left &= left - 1) {
      make_ready(*peer(lane, static_cast<std::uint32_t>(std::countr_zero(left))));
    }
  }

  /// Lets the lanes of a call continue when all of them have reached its end or have ended.
  void arrive_meeting(fiber_lane& lane) {
    auto const is_missing = [&](fiber_lane const& member) {
      return member.waiting != wait::done &&
             !(member.waiting == wait::meet && member.call == lane.call);
    };
    lane_mask const members = calls_.at(lane.call);
    for (lane_mask left = members; left != 0; left &= left - 1) {
      if (is_missing(*peer(lane, static_cast<std::uint32_t>(std::countr_zero(left))))) return;
    }
    calls_.erase(lane.call);
    for (lane_mask left = members; left != 0; left &= left - 1) {
      auto* const member = peer(lane, static_cast<std::uint32_t>(std::countr_zero(left)));
      if (member->waiting == wait::meet) make_ready(*member);
    }
  }

  /// Gives a new call number to the lanes of `group`, whose mask is `members`.
  void begin_call(lane_mask members, std::vector<fiber_lane*> const& group) {
    calls_.emplace(++last_call_, members);
    for (auto* const lane : group) lane->call = last_call_;
  }

  [[nodiscard]] bool returns_together() const { return schedule_.returns_together; }

  /// Throws bad_state if lanes of a barrier run elsewhere.
  void check_barrier(char const* name) const {
    if (is_part_)
      throw bad_state{
          std::string{name} +
          ": a barrier needs all lanes of the grid in one launch_fibers; launch no part"};
  }

  /// What stands for the group of an exchange that orders memory, the same for all members.
  [[nodiscard]] void* exchange_point(fiber_lane& lane) {
    if (!common_point::has_effect || std::strcmp(lane.pending_operation, "sync") != 0)
      return nullptr;
    return peer(lane, static_cast<std::uint32_t>(std::countr_zero(lane.members)));
  }
  [[nodiscard]] void* block_point(fiber_lane const& lane) {
    return &block_waiting_[lane.own_place().block];
  }
  [[nodiscard]] void* grid_point() { return &grid_waiting_; }

  void arrive_block(fiber_lane& lane) {
    ++block_waiting_[lane.own_place().block];
    open_block(lane.own_place().block);
  }

  void arrive_grid() {
    ++grid_waiting_;
    open_grid();
  }

  bool must_switch() { return random_.happens(schedule_.switches); }

  /// Returns false if lanes do not park, because other threads run some of them.
  bool park(fiber_lane& lane) {
    if (is_part_) return false;
    lane.is_woken = false;
    lane.waiting = wait::parked;
    remove_ready(lane);
    ++parked_;
    return true;
  }
  void wake(std::uint64_t rank) {
    if (is_part_) return;  // the lane may belong to another thread, and never parks
    if (rank >= lanes_.size() || lanes_[rank]->waiting != wait::parked) return;
    lanes_[rank]->is_woken = true;
    --parked_;
    make_ready(*lanes_[rank]);
  }

 private:
  struct stop {};
  static constexpr std::uint64_t looks_per_wake = 64;

  /// Lanes that are parked look again if no other lane can run. They also look after many resumes
  /// of other lanes: one of these may repeat a call that never waits.
  bool must_wake_all() {
    if (parked_ == 0) return false;
    return ready_.empty() || ++resumes_ > looks_per_wake * lanes_.size();
  }
  void wake_all() {
    resumes_ = 0;
    parked_ = 0;
    wake(wait::parked, std::nullopt);
  }

  /// `number`: among the lanes of this scheduler.
  void start(fiber_lane& lane, std::size_t number) {
    context::stack_context stack;
    if (own_stacks_) {
      stack = own_stacks_->of(number);
    } else {
      stack.size = schedule_.stacks.size;
      stack.sp = schedule_.stacks.base + (first_ + number) * schedule_.stacks.distance + stack.size;
    }
    lane.for_sanitizers.stack_bottom = static_cast<char const*>(stack.sp) - stack.size;
    lane.for_sanitizers.stack_bytes = stack.size;
    switches_.create(lane.for_sanitizers);
    context::preallocated const prepared{stack.sp, stack.size, stack};
    lane.fiber = context::fiber{std::allocator_arg, prepared, borrowed_stack{},
                                [this, &lane](context::fiber&& main) {
                                  switches_.end_scheduler(lane.for_sanitizers, true);
                                  main_ = std::move(main);
                                  try {
                                    if (!stopping_) kernel_();
                                  } catch (stop const&) {
                                  } catch (...) {
                                    if (!failure_) failure_ = std::current_exception();
                                  }
                                  leave(lane);
                                  switches_.begin_scheduler(lane.for_sanitizers, true);
                                  return std::move(main_);
                                }};
  }

  void resume(fiber_lane& lane) {
    current_lane = &lane;
    lane.resumed_at = last_switch_;
    switches_.begin_lane(lane.for_sanitizers);
    lane.fiber = std::move(lane.fiber).resume();
    switches_.end_lane();
    if (schedule_.clock != nullptr) {
      last_switch_ = schedule_.clock();
      lane.ran += last_switch_ - lane.resumed_at;
    }
    current_lane = nullptr;
  }

  void switch_to_main(fiber_lane& lane) {
    switches_.begin_scheduler(lane.for_sanitizers, false);
    main_ = std::move(main_).resume();
    switches_.end_scheduler(lane.for_sanitizers, false);
  }

  void leave(fiber_lane& lane) {
    if (lane.waiting == wait::ready) remove_ready(lane);
    lane.waiting = wait::done;
    ++done_;
    ++block_done_[lane.own_place().block];
    if (stopping_) return;
    open_block(lane.own_place().block);
    open_grid();
  }

  void remove_ready(fiber_lane& lane) {
    ready_[lane.ready_index] = ready_.back();
    ready_[lane.ready_index]->ready_index = lane.ready_index;
    ready_.pop_back();
  }

  /// As on CUDA, lanes that have ended no longer count at a barrier.
  void open_block(std::uint32_t block) {
    if (block_waiting_[block] == 0 || block_waiting_[block] + block_done_[block] < grid_.threads)
      return;
    block_waiting_[block] = 0;
    wake(wait::block, block);
  }

  void open_grid() {
    if (grid_waiting_ == 0 || grid_waiting_ + done_ < lanes_.size()) return;
    grid_waiting_ = 0;
    wake(wait::grid, std::nullopt);
  }

  void wake(wait reason, std::optional<std::uint32_t> block) {
    for (auto& lane : lanes_) {
      bool const is_in_scope = !block || lane->own_place().block == *block;
      if (lane->waiting == reason && is_in_scope) make_ready(*lane);
    }
  }

  /// Lets lanes of one warp that wait at one site continue as a group: usually all of these lanes,
  /// sometimes only some of them.
  void release_group() {
    auto const& first = *coalescing_[random_.below(coalescing_.size())];
    bool const is_partial = random_.happens(schedule_.partial_groups);
    std::vector<fiber_lane*> group;
    for (std::uint32_t index = 0; index < warp_size; ++index) {
      fiber_lane* const lane = peer(first, index);
      bool const may_join =
          lane != nullptr && lane->waiting == wait::coalesce && lane->site == first.site;
      if (!may_join || (is_partial && lane != &first && random_.happens(128))) continue;
      group.push_back(lane);
      coalescing_.back()->coalescing_index = lane->coalescing_index;
      coalescing_[lane->coalescing_index] = coalescing_.back();
      coalescing_.pop_back();
    }
    lane_mask mask = 0;
    for (auto const* lane : group) mask |= lane_mask{1} << lane->lane();
    if (group.front()->is_calling) begin_call(mask, group);
    for (auto* lane : group) {
      lane->members = mask;
      make_ready(*lane);
    }
  }

  fiber_lane* peer(fiber_lane const& lane, std::uint32_t index) {
    std::uint32_t const thread = lane.own_place().thread / warp_size * warp_size + index;
    if (thread >= grid_.threads) return nullptr;
    std::uint64_t const number = std::uint64_t{lane.own_place().block} * grid_.threads + thread;
    bool const is_own = number >= first_ && number - first_ < lanes_.size();
    return is_own ? lanes_[number - first_].get() : nullptr;
  }

  static std::string describe(fiber_lane const& lane) {
    std::ostringstream text;
    text << "block " << lane.own_place().block << " thread " << lane.own_place().thread << ' ';
    switch (lane.waiting) {
      case wait::exchange:
        text << "waits in " << lane.pending_operation << " for lanes 0x" << std::hex
             << lane.members;
        break;
      case wait::meet:
        text << "waits for the lanes of its call to return";
        break;
      case wait::block:
        text << "waits at the block barrier";
        break;
      case wait::grid:
        text << "waits at the grid barrier";
        break;
      default:
        text << "runs";
    }
    return text.str();
  }

  std::string report() const {
    std::ostringstream text;
    text << "deadlock (seed " << schedule_.seed << "), " << done_ << " of " << lanes_.size()
         << " lanes are done:";
    for (auto const& lane : lanes_) {
      if (lane->waiting != wait::done) text << "\n  " << describe(*lane);
    }
    return text.str();
  }

  fiber_schedule schedule_;
  random_source random_;
  kernel_ref kernel_;
  grid grid_;
  std::uint64_t first_ = 0;  // the number of the first lane
  bool is_part_ = false;     // other threads run other lanes
  std::size_t pauses_ = 0;
  std::optional<launch_stacks> own_stacks_;  // if the caller has none; the lanes' fibers end before
  std::vector<std::unique_ptr<fiber_lane>> lanes_;
  std::vector<fiber_lane*> ready_;
  std::vector<fiber_lane*> coalescing_;
  std::map<std::uint64_t, lane_mask> calls_;  // the calls that have not ended, and their lanes
  std::uint64_t last_call_ = 0;
  std::vector<std::uint32_t> block_done_;
  std::vector<std::uint32_t> block_waiting_;
  std::vector<std::uint64_t> block_words_;  // the word that a block's lanes share
  std::size_t done_ = 0;
  std::size_t parked_ = 0;
  std::uint64_t resumes_ = 0;  // while lanes are parked, since all looked
  std::size_t grid_waiting_ = 0;
  std::uint64_t last_switch_ = 0;  // by the schedule's clock
  bool stopping_ = false;
  std::exception_ptr failure_;
  context::fiber main_;
  fiber_switches switches_;
};

lane_mask fiber_lane::coalesce(void const* new_site) {
  hidden_from_sanitizer const hidden;
  site = new_site;
  owner_.block_on(*this, wait::coalesce);
  owner_.suspend(*this);
  return members;
}

std::array<std::uint64_t, warp_size> const& fiber_lane::exchange(lane_mask group,
                                                                 std::uint64_t sent,
                                                                 char const* operation) {
  hidden_from_sanitizer const hidden;
  members = group;
  value = sent;
  pending_operation = operation;
  common_point const meeting{owner_.exchange_point(*this)};
  owner_.block_on(*this, wait::exchange);
  owner_.arrive_exchange(*this);
  owner_.suspend(*this);
  return received;
}

bool fiber_lane::returns_together() const { return owner_.returns_together(); }

std::uint64_t fiber_lane::call_together(void const* called_site) {
  is_calling = true;
  (void)coalesce(called_site);
  is_calling = false;
  return call;
}

void fiber_lane::return_together(std::uint64_t ended_call) {
  hidden_from_sanitizer const hidden;
  call = ended_call;
  owner_.block_on(*this, wait::meet);
  owner_.arrive_meeting(*this);
  owner_.suspend(*this);
}

void fiber_lane::block_barrier() {
  owner_.check_barrier("block_barrier");
  hidden_from_sanitizer const hidden;
  common_point const barrier{owner_.block_point(*this)};
  owner_.block_on(*this, wait::block);
  owner_.arrive_block(*this);
  owner_.suspend(*this);
}

void fiber_lane::grid_barrier() {
  owner_.check_barrier("grid_barrier");
  hidden_from_sanitizer const hidden;
  common_point const barrier{owner_.grid_point()};
  owner_.block_on(*this, wait::grid);
  owner_.arrive_grid();
  owner_.suspend(*this);
}

std::uint64_t& fiber_lane::block_word() { return owner_.block_word(own_place().block); }

void fiber_lane::interleave() {
  if (owner_.must_switch()) owner_.suspend(*this);
}

void fiber_lane::pause() { owner_.pause(*this); }

bool fiber_lane::park() {
  if (!owner_.park(*this)) {
    owner_.pause(*this);
    return true;
  }
  owner_.suspend(*this);
  return is_woken;
}

void fiber_lane::wake(std::uint64_t rank) { owner_.wake(rank); }

void launch_fibers(grid lanes, fiber_schedule schedule, kernel_ref kernel) {
  if (std::uint64_t{lanes.blocks} * lanes.threads > max_lanes) {
    throw bad_argument{
        "launch_fibers: " + std::to_string(std::uint64_t{lanes.blocks} * lanes.threads) +
        " lanes exceed the limit of " + std::to_string(max_lanes) + "; launch a smaller grid"};
  }
  scheduler{lanes, schedule, kernel}.run();
}

}  // namespace quarry::inline QUARRY_ABI::simt
