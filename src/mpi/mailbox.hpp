// SPDX-License-Identifier: Apache-2.0
// How a message gets from one rank to another: a ring of slots for each receiver.
#pragma once

#include "orders.hpp"
#include "ways.hpp"

#include "quarry/simt/atomic.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// What a message says about itself.
struct envelope {
  std::uint32_t tag;
  std::uint32_t source;  // the sender's rank in the communicator
  std::uint32_t about;   // the context * 256, the flags, the number of bytes in the slot

  static constexpr std::uint32_t size_mask = 63;
  static constexpr std::uint32_t is_long = 63;       // a size: the first word is the true one
  static constexpr std::uint32_t is_elsewhere = 64;  // the slot has the address of a `message`
  static constexpr std::uint32_t is_ordered = 128;   // the receiver sees what the sender wrote
  static constexpr std::uint32_t is_signed = 1;  // of a message elsewhere: it has a signature_note

  [[nodiscard]] QUARRY_HD std::uint32_t context() const { return about >> 8; }
  /// The bytes of the message in the slot, or `is_long`.
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return about & size_mask; }
};
/// Contexts are less than this number.
inline constexpr std::uint32_t end_of_contexts = std::uint32_t{1} << 24;

/// The mailbox of a rank: a ring of slots with many senders and one receiver.
///
/// A sender draws a ticket (T), which is its message's place in the order of arrival, and writes
/// the message to the ticket's slot. A slot consists of units of 8 bytes: 4 bytes of the message
/// and the message's number, which is its ticket plus 1. The receiver looks at the slot of the next
/// message. The message has arrived when all its units have its number. So one store and one load
/// move a unit, in whatever order they become visible, and no fence is needed: on a GPU a fence
/// takes as long as the rest of a send.
///
/// The word `tickets` also counts the slots that the receiver has returned, so that drawing a
/// ticket tells whether the ticket's slot is free. If it is not, the sender waits, with progress. A
/// sender holds a ticket meanwhile, and others may wait for it; it needs nothing but the receiver's
/// next calls. The receiver returns slots when it waits, or when half of them are used (B).
///
/// Memory order.
/// - (T) acquire, (B) release: the receiver reads all units of a message before (B), and the next
///   sender writes them after (T), so a new unit never precedes an old one. RMWs of other senders
///   continue (B)'s release sequence. On the GPU both are relaxed. An acquire would empty the
///   multiprocessor's cache, which has the stacks of all its ranks, and a release would wait for
///   all of the rank's stores. Neither is needed: a GPU performs no store or RMW before a load
///   that it depends on. (B) depends on the units' numbers, and the new units depend on (T). No
///   test can relax these two, since units are atomic.
/// - Units are relaxed. A number tells which message a unit belongs to, and it is in the same word
///   as the data.
/// - A message that is `is_ordered` refers to other memory: an address, or what a collective has
///   written. Its third unit is stored last with release (K), and the receiver loads it again with
///   acquire (G). On the CPU, where this costs nothing, every message is so. On the GPU other
///   messages order nothing, and programs cannot tell: their ranks share no memory. One case is
///   close: a rank learns from a short message that another rank has copied its send buffer. That
///   copy is complete before the other rank's next message, because of the fence of (D).
///
/// A slot may have an extension: more units, for the data of a message that is too long for the
/// slot. They have the message's number, too, so that such a message needs no fence either. The
/// slot then has the message's size. A message has arrived when its slot has; the receiver waits
/// for units of the extension while it reads them, and the sender writes them without waiting for
/// anything. On the CPU the data is there first, as plain bytes: (K) and (G) order it.
///
/// Numbers wrap after 2^32 messages. A long message's last units can stay in a slot for as long,
/// and would then have the number of a message that has not arrived. So the receiver wipes each
/// slot and its extension once in 2^31 messages, and not among the first, for a wipe takes as long
/// as many messages.
///
/// Rejected: a queue of messages in the heap (a sender exchanges its end, then links the message).
/// It is never full, but costs two fences and one more round trip: 3.3 us a message on an H100.
template <std::uint32_t Slots>
struct basic_mailbox {
  static constexpr std::uint32_t units = 16;
  static constexpr std::uint32_t header_units = 3;
  static constexpr std::uint32_t most_words = units - header_units;

  alignas(128) std::uint64_t slots[Slots][units];
  std::uint64_t tickets;  // high half: tickets drawn; low half: slots returned

  /// The mailbox is empty; `first` messages are taken to have passed.
  QUARRY_HD void initialise(std::uint32_t first = 0) {
    for (auto& slot : slots)
      for (auto& unit : slot) unit = std::uint64_t{first} << 32;
    tickets = std::uint64_t{first} << 32 | first;
  }
};

/// One message of a sender, on its way into a mailbox. Where the `Way` leads to another process
/// (ways.hpp), `to` is the place of the mailbox in the memory of the sender's own process: the
/// sender addresses the mailbox itself only where it is mapped.
template <std::uint32_t Slots, class Way = near_way>
class mail_slot : private Way {
 public:
  /// Draws a ticket.
  QUARRY_FAST explicit mail_slot(basic_mailbox<Slots>& to, Way taken = {})
      : Way{taken}, to_{taken.reach(&to)} {
    std::uint64_t const before = way().draw(to_->tickets, std::uint64_t{1} << 32);  // (T)
    ticket_ = static_cast<std::uint32_t>(before >> 32);
    returned_ = static_cast<std::uint32_t>(before);
  }

  /// The ticket that another `mail_slot` of this sender has drawn.
  QUARRY_FAST mail_slot(basic_mailbox<Slots>& to, Way taken, std::uint32_t ticket)
      : Way{taken}, to_{taken.reach(&to)}, ticket_{ticket}, returned_{ticket - Slots} {}
  [[nodiscard]] QUARRY_FAST std::uint32_t ticket() const { return ticket_; }
  /// The number of the message's units.
  [[nodiscard]] QUARRY_FAST std::uint32_t number() const { return ticket_ + 1; }
  [[nodiscard]] QUARRY_FAST basic_mailbox<Slots> const& mailbox() const { return *to_; }
  [[nodiscard]] QUARRY_FAST Way way() const { return *this; }

  /// Whether the message can be written.
  [[nodiscard]] QUARRY_FAST bool is_free() const { return ticket_ - returned_ < Slots; }
  /// Looks again whether the message can be written.
  QUARRY_FAST void look() {
    std::uint64_t& word = to_->tickets;
    returned_ = static_cast<std::uint32_t>(way().hint(word));                 // (L)
    if (is_free()) returned_ = static_cast<std::uint32_t>(way().look(word));  // (T)
  }

  /// Writes the message. `word_at(i)` is its i-th word.
  template <class Words>
  QUARRY_FAST void write(envelope const& head, std::uint32_t words, Words const& word_at) {
#ifndef __CUDA_ARCH__
    if (way().is_near()) return write_ordered(head, words, word_at);
#endif
    write_units(head, words, word_at);
  }
  /// Writes a message without an order.
  template <class Words>
  QUARRY_FAST void write_units(envelope const& head, std::uint32_t words,
                               Words const& word_at) const {
    std::uint64_t& first = to_->slots[ticket_ % Slots][0];
    store_units(first, head.tag, head.source);
    store_units(*(&first + 2), head.about, words != 0 ? word_at(0) : 0);
    write_rest(first, words, word_at);
  }
  /// Writes a message whose data is in the slot's extension: on the CPU already, on the GPU soon.
  QUARRY_FAST void write_long(envelope head, std::uint32_t size) {
    head.about |= envelope::is_long;
    write(head, 3, [size](std::uint32_t i) { return i == 0 ? size : 0; });
  }
  /// Writes a message that is `is_ordered`, to a mailbox that is mapped.
  template <class Words>
  QUARRY_HD void write_ordered(envelope const& head, std::uint32_t words,
                               Words const& word_at) const {
    auto& slot = to_->slots[ticket_ % Slots];
    store_units(slot[0], head.tag, head.source);
    write_rest(slot[0], words, word_at);
    simt::atomic_ref<std::uint64_t> const last{slot[3]};
    last.store(unit(words != 0 ? word_at(0) : 0), simt::relaxed);
    simt::atomic_ref<std::uint64_t>{slot[2]}.store(unit(head.about), ordered_store);  // (K)
  }
  /// Writes a message with a block of bytes. The receiver sees the bytes after `acquire`. `block`:
  /// where the way puts it, in a process that is not mapped.
  template <class Words>
  QUARRY_HD void write_with_block(envelope const& head, std::uint32_t words, Words const& word_at,
                                  char* block, char const* data, std::uint64_t size) const {
    auto& slot = to_->slots[ticket_ % Slots];
    store_units(slot[0], head.tag, head.source);
    write_rest(slot[0], words, word_at);
    way().put(slot[3], unit(word_at(0)));
    way().put_block(block, data, size, slot[2], unit(head.about));  // (K)
  }

 private:
  [[nodiscard]] QUARRY_FAST std::uint64_t unit(std::uint32_t data) const {
    return std::uint64_t{ticket_ + 1} << 32 | data;
  }
  /// Writes the words behind the first: two, or fours of them, as receivers read them.
  template <class Words>
  QUARRY_FAST void write_rest(std::uint64_t& first, std::uint32_t words,
                              Words const& word_at) const {
    std::uint32_t const end = words <= 3 ? words : (words + 2) / 4 * 4 + 1;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < end; i += 2)
      store_units(*(&first + 3 + i), i < words ? word_at(i) : 0,
                  i + 1 < words ? word_at(i + 1) : 0);
  }
  QUARRY_FAST void store_units(std::uint64_t& first, std::uint32_t left,
                               std::uint32_t right) const {
    if (!way().is_mapped()) {
      way().put(first, unit(left));
      way().put(*(&first + 1), unit(right));
      return;
    }
#ifdef __CUDA_ARCH__
    simt::store_pair(first, {unit(left), unit(right)});
#else
    simt::atomic_ref<std::uint64_t>{first}.store(unit(left), simt::relaxed);
    simt::atomic_ref<std::uint64_t>{*(&first + 1)}.store(unit(right), simt::relaxed);
#endif
  }

  basic_mailbox<Slots>* to_;
  std::uint32_t ticket_;
  std::uint32_t returned_;
};

/// The extensions of a mailbox's slots. `units` is their number for one slot, which may be 0.
struct slot_extensions {
  std::uint64_t* first = nullptr;
  std::uint32_t units = 0;

  [[nodiscard]] QUARRY_FAST std::uint64_t* of(std::uint32_t slot) const {
    return first + std::uint64_t{slot} * units;
  }
};

/// How far the receiver is. Only the receiver uses it.
struct mail_position {
  std::uint32_t taken;     // messages
  std::uint32_t returned;  // slots
};

/// The receiver's end of a mailbox.
template <std::uint32_t Slots>
class mail_reader {
 public:
  using mailbox = basic_mailbox<Slots>;
  QUARRY_FAST mail_reader(mailbox& from, mail_position& position, slot_extensions extensions = {})
      : from_{from}, position_{position}, extensions_{extensions} {}

  /// After this many messages the receiver wipes each slot with the next message in it, and again
  /// after each 2^31 messages.
  static constexpr std::uint32_t first_wiped = std::uint32_t{1} << 30;

  /// Whether a message begins to arrive.
  [[nodiscard]] QUARRY_FAST bool has_message() const { return has_message(taken()); }
  /// Whether one begins to arrive within so many looks. They read one unit and no other memory: the
  /// looks of 262,144 ranks that each read a few lines more would need all of a GPU's memory
  /// bandwidth.
  [[nodiscard]] QUARRY_FAST bool awaits_message(std::uint32_t looks) const {
    std::uint32_t const before = taken();
    QUARRY_NO_UNROLL
    for (; looks != 0; --looks)
      if (has_message(before)) return true;
    return false;
  }
  /// Where a message that begins to arrive shows: the word gets the value.
  struct awaited_word {
    std::uint32_t const* word;
    std::uint32_t value;
  };
  [[nodiscard]] QUARRY_FAST awaited_word next_message() const {
    std::uint32_t const before = taken();
    return {reinterpret_cast<std::uint32_t const*>(from_.slots[before % Slots]) + 1, before + 1};
  }
  /// How many messages were taken. A caller that looks often keeps it, for the looks.
  [[nodiscard]] QUARRY_FAST std::uint32_t taken() const { return position_.taken; }

  /// A message that has arrived. More words would need registers for as long as the rank looks, and
  /// a rank may have few. The others are in `later_units()`; the sender writes them without waiting
  /// for anything, so that a reader need not wait long for their number.
  struct arrival {
    envelope head;
    std::uint32_t words[3];

    [[nodiscard]] QUARRY_FAST bool is_long() const { return head.size() == envelope::is_long; }
    [[nodiscard]] QUARRY_FAST std::uint32_t size() const {
      return is_long() ? words[0] : head.size();
    }
  };
  /// Looks for the next message. Returns whether it has arrived, apart from its later words.
  [[nodiscard]] QUARRY_FAST bool look(arrival& found) const { return look(found, taken(), false); }
  /// The same for a caller that knows `taken()`. `is_crowded`: loads one unit before the others.
  [[nodiscard]] QUARRY_FAST bool look(arrival& found, std::uint32_t taken, bool is_crowded) const {
    std::uint64_t* const units = from_.slots[taken % Slots];
    auto const is_current = [taken](std::uint64_t unit) {
      return static_cast<std::uint32_t>(unit >> 32) == taken + 1;
    };
    if (is_crowded && !has_message(taken)) return false;
    simt::word_pair const a = simt::load_pair(units[0]);
    simt::word_pair const b = simt::load_pair(units[2]);
    simt::word_pair const c = simt::load_pair(units[4]);
    if (!is_current(a.first) || !is_current(a.second) || !is_current(b.first)) return false;
    found.head = {static_cast<std::uint32_t>(a.first), static_cast<std::uint32_t>(a.second),
                  static_cast<std::uint32_t>(b.first)};
    found.words[0] = static_cast<std::uint32_t>(b.second);
    found.words[1] = static_cast<std::uint32_t>(c.first);
    found.words[2] = static_cast<std::uint32_t>(c.second);
    if (!is_current(b.second) ||
        (found.head.size() > 4 && !(is_current(c.first) && is_current(c.second))))
      return false;
#ifndef __CUDA_ARCH__
    acquire();
#endif
    return true;
  }
  /// The first word of a message that has arrived.
  [[nodiscard]] QUARRY_FAST std::uint32_t first_word() const {
    return static_cast<std::uint32_t>(
        simt::atomic_ref<std::uint64_t>{slot()[mailbox::header_units]}.load(simt::relaxed));
  }
  /// The units of the message's second word and the next ones.
  [[nodiscard]] QUARRY_FAST std::uint64_t* later_units() const {
    return slot() + mailbox::header_units + 1;
  }
  /// The extension of the message's slot, and the number of its units.
  [[nodiscard]] QUARRY_FAST std::uint64_t* extension() const {
    return extensions_.of(position_.taken % Slots);
  }
  [[nodiscard]] QUARRY_FAST std::uint32_t number() const { return position_.taken + 1; }
  /// After it, the caller sees what the sender of an ordered message wrote before.
  QUARRY_HD void acquire() const {
    (void)simt::atomic_ref<std::uint64_t>{slot()[2]}.load(ordered_load);  // (G)
  }

  /// Goes on to the next message.
  QUARRY_FAST void take() {
    std::uint32_t const taken = position_.taken;
    if (((taken - first_wiped) & 0x7fffffff) < Slots) {
      wipe(slot(), mailbox::units, taken + 1);
      wipe(extension(), extensions_.units, taken + 1);
      simt::fence_before_stores();  // on a GPU (B) orders no stores
    }
    position_.taken = taken + 1;
    if (taken + 1 - position_.returned >= (Slots + 1) / 2) return_slots();
  }
  [[nodiscard]] QUARRY_FAST bool has_slots_to_return() const {
    return position_.taken != position_.returned;
  }
  /// Returns the slots of the messages that were taken.
  QUARRY_FAST void return_slots() {
    std::uint64_t change = position_.taken - position_.returned;
    if (position_.taken < position_.returned)
      change -= std::uint64_t{1} << 32;  // the low half wraps: take back its carry
    position_.returned = position_.taken;
    simt::atomic_ref<std::uint64_t> const word{from_.tickets};
#ifdef __CUDA_ARCH__
    word.add_blindly(change);  // (B)
#else
    (void)word.fetch_add(change, simt::release);  // (B)
#endif
  }

 private:
  [[nodiscard]] QUARRY_FAST std::uint64_t* slot() const {
    return from_.slots[position_.taken % Slots];
  }
  [[nodiscard]] QUARRY_FAST bool has_message(std::uint32_t taken) const {
    simt::atomic_ref<std::uint64_t> const first{from_.slots[taken % Slots][0]};
    return static_cast<std::uint32_t>(first.load(simt::relaxed) >> 32) == taken + 1;
  }
  /// Gives all units the number of the message that was taken, which does not come again before the
  /// slot is wiped again.
  QUARRY_FAST static void wipe(std::uint64_t* units, std::uint32_t count, std::uint32_t number) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      simt::atomic_ref<std::uint64_t>{units[i]}.store(std::uint64_t{number} << 32, simt::relaxed);
  }

  mailbox& from_;
  mail_position& position_;
  slot_extensions extensions_;
};

/// The mailbox of a rank.
inline constexpr std::uint32_t mail_slots = 4;
using mail = basic_mailbox<mail_slots>;
using own_mail_reader = mail_reader<mail_slots>;
inline constexpr std::uint32_t most_inline = mail::most_words * 4;

/// A message whose data is not in the slot, or that no receive has matched yet.
struct message {
  void const* data;
  std::uint64_t size;
  envelope head;
  std::uint32_t is_taken;  // not 0: the receiver does not need it any more (D); atomic
  message* later;          // the next in the receiver's list of unexpected messages
  // Bytes behind the header. Of a message that its sender waits for: 0 if `data` is the sender's
  // buffer, not 0 if `data` is a copy that `finish_send` frees.
  std::uint32_t capacity;
  enum class owner : std::uint32_t {
    sender,
    receiver,
    node,
#ifdef QUARRY_MPI_PROCESSES
    process  // it goes to another process, or comes from there (message_parts.hpp)
#endif
  } belongs_to;
  static constexpr std::uint32_t taken_back = 2;  // of `is_taken`: nobody has received it

  /// Whether a signature_note comes with it. In a node the bit belongs to the size.
  [[nodiscard]] QUARRY_HD bool is_signed() const {
    return belongs_to != owner::node && (head.about & envelope::is_signed) != 0;
  }
  [[nodiscard]] QUARRY_HD char* inline_data() { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(message) == 48);

}  // namespace quarry::inline QUARRY_ABI::mpi
