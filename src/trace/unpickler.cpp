// SPDX-License-Identifier: Apache-2.0
#include "trace/unpickler.hpp"

#include "quarry/trace/reader.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Opcodes of protocols 2 to 5 (Python's Lib/pickletools.py documents them).
namespace op {
enum : unsigned char {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  int4 = 'J',
  int1 = 'K',
  int2 = 'M',
  long1 = 0x8a,
  long4 = 0x8b,
  float8 = 'G',
  string4 = 'X',
  string1 = 0x8c,
  string8 = 0x8d,
  bytes4 = 'B',
  bytes1 = 'C',
  bytes8 = 0x8e,
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  empty_dict = '}',
  set_item = 's',
  set_items = 'u',
  empty_set = 0x8f,
  add_items_to_set = 0x90,
  frozen_set = 0x91,
  put1 = 'q',
  put4 = 'r',
  get1 = 'h',
  get4 = 'j',
  memoize = 0x94,
  protocol = 0x80,
  frame = 0x95,
};
}  // namespace op

/// The bytes of the argument that follows an opcode, if they do not depend on the argument.
constexpr std::size_t argument_bytes(unsigned char code) {
  switch (code) {
    case op::int1:
    case op::put1:
    case op::get1:
    case op::protocol:
      return 1;
    case op::int2:
      return 2;
    case op::int4:
    case op::put4:
    case op::get4:
      return 4;
    case op::float8:
    case op::frame:
      return 8;
    default:
      return 0;
  }
}

/// The bytes of the length that stands before a string or a long integer; 0 for other opcodes.
constexpr std::size_t length_bytes(unsigned char code) {
  switch (code) {
    case op::long1:
    case op::string1:
    case op::bytes1:
      return 1;
    case op::long4:
    case op::string4:
    case op::bytes4:
      return 4;
    case op::string8:
    case op::bytes8:
      return 8;
    default:
      return 0;
  }
}

constexpr bool is_known(unsigned char code) {
  constexpr unsigned char others[] = {op::mark,       op::stop,       op::pop,
                                      op::pop_mark,   op::dup,        op::none,
                                      op::new_true,   op::new_false,  op::empty_list,
                                      op::append,     op::appends,    op::empty_tuple,
                                      op::tuple,      op::tuple1,     op::tuple2,
                                      op::tuple3,     op::empty_dict, op::set_item,
                                      op::set_items,  op::empty_set,  op::add_items_to_set,
                                      op::frozen_set, op::memoize};
  return argument_bytes(code) != 0 || length_bytes(code) != 0 ||
         std::find(std::begin(others), std::end(others), code) != std::end(others);
}

/// A little-endian integer in two's complement of any length.
pickled long_integer(unsigned char const* data, std::size_t size) {
  if (size == 0) return pickled{std::int64_t{0}};
  bool const is_negative = (data[size - 1] & 0x80) != 0;
  unsigned char const fill = is_negative ? 0xff : 0;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{i < size ? data[i] : fill} << (8 * i);
  bool const has_64_bits = std::all_of(data + std::min<std::size_t>(size, 8), data + size,
                                       [&](unsigned char byte) { return byte == fill; });
  if (!is_negative) return pickled{has_64_bits ? value : ~std::uint64_t{0}};
  bool const fits = has_64_bits && (value >> 63) != 0;
  return pickled{fits ? static_cast<std::int64_t>(value)
                      : std::numeric_limits<std::int64_t>::min()};
}

}  // namespace

/// `depth`: of containers inside. A container in another one never changes, so there are no cycles,
/// `depth` stays right, and its destructor does not recurse further than that.
struct pickled::object {
  std::uint32_t references = 1;
  std::uint32_t depth = 0;
  bool is_fixed = false;
  std::string text = {};
  std::vector<pickled> items = {};
};

pickled::pickled(std::string_view text) : kind_{kind::string} {
  object_ = new object{.text = std::string{text}};
}
pickled::pickled(pickled const& other) noexcept : kind_{other.kind_}, integer_{other.integer_} {
  if (is_shared()) ++object_->references;
}
void pickled::drop() noexcept {
  if (--object_->references == 0) delete object_;
}
pickled pickled::container(kind sort) {
  pickled result;
  result.object_ = new object{};
  result.kind_ = sort;
  return result;
}
std::string_view pickled::text() const {
  return kind_ == kind::string ? std::string_view{object_->text} : std::string_view{};
}
std::vector<pickled> const& pickled::items() const {
  static std::vector<pickled> const nothing;
  return kind_ >= kind::list ? object_->items : nothing;
}
pickled const* pickled::find(std::string_view key) const {
  if (kind_ != kind::dict) return nullptr;
  auto const& entries = object_->items;
  if (entries.size() > 2 * max_keys) return nullptr;
  for (std::size_t i = entries.size(); i >= 2; i -= 2) {  // the last of equal keys counts
    if (entries[i - 2].kind_ == kind::string && entries[i - 2].text() == key)
      return &entries[i - 1];
  }
  return nullptr;
}

unpickler::unpickler(byte_source& source, std::string_view streamed_key)
    : source_{source}, streamed_key_{streamed_key} {
  find_used_memos();
}

void unpickler::refuse(std::string const& reason) const {
  throw bad_trace{source_.path() + ", offset " + std::to_string(opcode_offset_) + ": " + reason};
}

unsigned char const* unpickler::take(std::size_t count) {
  auto const found = source_.peek(count);
  if (found.size() < count) refuse("the file ends inside the pickle");
  source_.skip(count);
  return found.data();
}
std::uint64_t unpickler::take_number(std::size_t bytes) {
  unsigned char const* const data = take(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{data[i]} << (8 * i);
  return value;
}
void unpickler::skip(std::uint64_t count) {
  while (count > 0) {
    auto const part = static_cast<std::size_t>(std::min<std::uint64_t>(count, 1 << 16));
    (void)take(part);
    count -= part;
  }
}

void unpickler::find_used_memos() {
  try {
    for (;;) {
      unsigned char const code = *take(1);
      if (code == op::stop || !is_known(code)) break;  // the second pass refuses unknown opcodes
      if (code == op::get1 || code == op::get4) {
        memos_.try_emplace(take_number(argument_bytes(code)));
      } else if (std::size_t const length = length_bytes(code); length != 0) {
        skip(take_number(length));
      } else {
        skip(argument_bytes(code));
      }
    }
  } catch (bad_trace const&) {  // the file ends early: the second pass says so
  }
  source_.rewind();
}

void unpickler::push(pickled value) {
  if (stack_.size() == max_stack)
    refuse("more than " + std::to_string(max_stack) + " values are in no container");
  stack_.push_back(std::move(value));
}
std::size_t unpickler::last(std::size_t count) const {
  std::size_t const available = stack_.size() - (marks_.empty() ? 0 : marks_.back());
  if (available < count)
    refuse("an opcode needs " + std::to_string(count) + " values, but the stack has " +
           std::to_string(available) + " above the last mark");
  return stack_.size() - count;
}
pickled unpickler::pop() {
  (void)last(1);
  pickled result = std::move(stack_.back());
  stack_.pop_back();
  return result;
}
std::size_t unpickler::pop_mark() {
  if (marks_.empty()) refuse("an opcode needs a mark, but there is none");
  std::size_t const result = marks_.back();
  marks_.pop_back();
  return result;
}
pickled& unpickler::top() { return stack_[last(1)]; }

/// Moves the values from `first` on into the container at `container`.
void unpickler::add_items(std::size_t container, std::size_t first) {
  pickled const& target = stack_[container];
  if (target.type() < pickled::kind::list || target.shared().is_fixed)
    refuse("an opcode changes a value that is no container, or one that is in another container");
  if (target.type() == pickled::kind::dict && (stack_.size() - first) % 2 != 0)
    refuse("a dict gets a key without a value");
  auto& object = target.shared();
  for (std::size_t i = first; i < stack_.size(); ++i) {
    pickled& item = stack_[i];
    if (item.type() >= pickled::kind::list) {
      if (&item.shared() == &object) refuse("a container contains itself");
      item.shared().is_fixed = true;
      object.depth = std::max(object.depth, item.shared().depth + 1);
      if (object.depth > max_depth)
        refuse("containers are nested more than " + std::to_string(max_depth) + " levels");
    }
    object.items.push_back(std::move(item));
  }
  stack_.resize(first);
}

void unpickler::make_list(std::size_t first) {
  stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first),
                pickled::container(pickled::kind::list));
  add_items(first, first + 1);
}

void unpickler::set_memo(std::uint64_t index) {
  pickled const& value = top();
  auto const found = memos_.find(index);
  if (found != memos_.end()) found->second = value;
  has_memo_gap_ |= index > next_memo_;
  if (index == next_memo_) ++next_memo_;
}

/// Whether the stack has, below this list: lists, then a list, then the key.
bool unpickler::is_streamed(std::size_t list) {
  for (std::size_t outer = list; outer >= 2 && list - outer < 1024; --outer) {
    if (stack_[outer - 1].type() != pickled::kind::list) return false;
    if (stack_[outer - 2].text() == streamed_key_ && outer - 1 < list) {
      list_index_ = static_cast<std::uint32_t>(list - outer + stack_[outer - 1].items().size());
      return true;
    }
  }
  return false;
}

bool unpickler::step(std::vector<pickled>& elements) {
  opcode_offset_ = source_.offset();
  unsigned char const code = *take(1);
  if (std::size_t const length = length_bytes(code); length != 0) {
    std::uint64_t const size = take_number(length);
    if (size > max_string)
      refuse("a string or an integer has " + std::to_string(size) + " bytes, more than " +
             std::to_string(max_string));
    unsigned char const* const data = take(static_cast<std::size_t>(size));
    if (code == op::long1 || code == op::long4) {
      push(long_integer(data, static_cast<std::size_t>(size)));
    } else {
      push(pickled{
          std::string_view{reinterpret_cast<char const*>(data), static_cast<std::size_t>(size)}});
    }
    return false;
  }
  switch (code) {
    case op::protocol:
    case op::frame:
      skip(argument_bytes(code));
      break;
    case op::mark:
      if (marks_.size() == max_stack)
        refuse("more than " + std::to_string(max_stack) + " marks are open");
      marks_.push_back(stack_.size());
      break;
    case op::stop:
      value_ = pop();
      is_over_ = true;
      break;
    case op::pop:
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        (void)pop();
      }
      break;
    case op::pop_mark:
      stack_.resize(pop_mark());
      break;
    case op::dup: {
      pickled copy = top();
      push(std::move(copy));
      break;
    }
    case op::none:
      push({});
      break;
    case op::new_true:
    case op::new_false:
      push(pickled{code == op::new_true});
      break;
    case op::int1:
    case op::int2:
      push(pickled{static_cast<std::int64_t>(take_number(argument_bytes(code)))});
      break;
    case op::int4:
      push(pickled{
          std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(take_number(4)))}});
      break;
    case op::float8: {
      std::uint64_t const bits = __builtin_bswap64(take_number(8));
      push(pickled{std::bit_cast<double>(bits)});
      break;
    }
    case op::empty_list:
    case op::empty_tuple:
    case op::empty_set:
      push(pickled::container(pickled::kind::list));
      break;
    case op::empty_dict:
      push(pickled::container(pickled::kind::dict));
      break;
    case op::tuple:
    case op::frozen_set:
      make_list(pop_mark());
      break;
    case op::tuple1:
    case op::tuple2:
    case op::tuple3:
      make_list(last(code - op::tuple1 + 1u));
      break;
    case op::append:
    case op::appends:
    case op::add_items_to_set:
    case op::set_item:
    case op::set_items: {
      std::size_t const count = code == op::append ? 1 : code == op::set_item ? 2 : 0;
      std::size_t const first = count != 0 ? last(count + 1) + 1 : pop_mark();
      (void)last(stack_.size() - first + 1);  // the container
      if ((code == op::append || code == op::appends) && is_streamed(first - 1)) {
        elements.assign(
            std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(first)),
            std::make_move_iterator(stack_.end()));
        stack_.resize(first);
        return true;
      }
      add_items(first - 1, first);
      break;
    }
    case op::put1:
    case op::put4:
      set_memo(take_number(argument_bytes(code)));
      break;
    case op::memoize:
      if (has_memo_gap_) refuse("the numbers of memos have gaps, so the next number is unknown");
      set_memo(next_memo_);
      break;
    case op::get1:
    case op::get4: {
      std::uint64_t const index = take_number(argument_bytes(code));
      auto const found = memos_.find(index);
      if (found == memos_.end() || !found->second)
        refuse("an opcode refers to memo " + std::to_string(index) + ", which is not set");
      push(*found->second);
      break;
    }
    default: {
      char text[8];
      std::snprintf(text, sizeof text, "0x%02x", code);
      refuse(std::string{"opcode "} + text +
             " is refused: this reader builds plain containers only, and no objects of classes");
    }
  }
  return false;
}

void unpickler::restart() {
  source_.rewind();
  next_memo_ = 0;
  has_memo_gap_ = false;
  for (auto& [index, value] : memos_) value.reset();
  stack_.clear();
  marks_.clear();
  value_ = {};
  is_over_ = false;
}

bool unpickler::next(std::vector<pickled>& elements) {
  elements.clear();
  while (!is_over_) {
    if (step(elements)) return true;
  }
  return false;
}

}  // namespace quarry::inline QUARRY_ABI::trace
