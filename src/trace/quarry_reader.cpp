// SPDX-License-Identifier: Apache-2.0
#include "trace/quarry_reader.hpp"

#include "trace/codec.hpp"

#include <algorithm>
#include <cstring>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

class quarry_reader final : public reader {
 public:
  explicit quarry_reader(std::unique_ptr<byte_source> source) : source_{std::move(source)} {
    auto const header = source_->peek(codec::file_header_bytes);
    if (!looks_like_quarry(header)) throw bad_trace{source_->path() + ": not a trace of Quarry"};
    if (header.size() < codec::file_header_bytes)
      throw bad_trace{source_->path() + ": the file ends inside the header, which has " +
                      std::to_string(codec::file_header_bytes) + " bytes"};
    if (std::uint32_t const version = codec::load32(header.data() + 8); version != codec::version)
      throw bad_trace{source_->path() + ": has version " + std::to_string(version) +
                      " of the format; this program reads version " +
                      std::to_string(codec::version)};
    source_->skip(codec::file_header_bytes);
  }

  std::size_t read(std::span<event> events) override {
    std::size_t count = 0;
    while (count < events.size()) {
      if (left_ == 0 && !next_events()) break;
      count += decode(events.subspan(count));
    }
    has_events_ |= count != 0;
    if (count == 0 && !events.empty()) require_events(has_events_);
    return count;
  }
  format file_format() const override { return format::quarry; }

 private:
  /// Decodes events of the present chunk. A chunk whose checksum is right but whose contents are
  /// wrong was written by another program; the remainder of the chunk is skipped.
  std::size_t decode(std::span<event> events) {
    std::size_t const wanted = std::min<std::size_t>(events.size(), left_);
    for (std::size_t i = 0; i < wanted; ++i) {
      if (codec::read_event(at_, end_, events[i], before_) && has_names(events[i])) continue;
      problem(chunk_offset_, "event " + std::to_string(count_ - left_ + i) +
                                 " of the chunk is invalid; its later events are skipped");
      left_ = 0;
      return i;
    }
    left_ -= static_cast<std::uint32_t>(wanted);
    return wanted;
  }
  bool has_names(event const& each) {
    return has_name(names_.call_sites, each.call_site) &&
           has_name(names_.allocators, each.allocator) && has_name(names_.threads, each.thread) &&
           has_name(names_.streams, each.stream) &&
           (each.kind != event_kind::wait || has_name(names_.streams, each.size));
  }
  bool has_name(name_table& table, std::uint64_t number) {
    return number < table.size() || add_lost_names(table, number + 1);
  }

  /// Adds the names that damaged chunks had, until the table has `size` entries. Returns false if
  /// the skipped bytes are too few for that: an entry has 3 bytes at least.
  bool add_lost_names(name_table& table, std::uint64_t size) {
    std::uint64_t const missing = size - table.size();
    if (size == 0 || missing > skipped_bytes_ / 3 - lost_names_) return false;
    lost_names_ += missing;
    while (table.size() < size) table.add("lost name " + std::to_string(table.size()));
    return true;
  }

  /// Moves to the next chunk of events. Returns false at the end of the file.
  bool next_events() {
    while (!is_over_) {
      source_->skip(std::exchange(chunk_bytes_, 0));
      chunk_offset_ = source_->offset();
      auto const header = peek(codec::chunk_header_bytes);
      if (header.empty()) return false;
      if (!is_chunk(header)) {
        if (!find_chunk()) return false;
        continue;
      }
      std::size_t const payload_bytes = codec::load32(peek(codec::chunk_header_bytes).data() + 8);
      chunk_bytes_ = codec::chunk_header_bytes + payload_bytes;
      auto const chunk = peek(chunk_bytes_);
      auto const payload = chunk.subspan(codec::chunk_header_bytes, payload_bytes);
      std::uint32_t const kind = codec::load32(chunk.data() + 4) & 0xff;
      count_ = codec::load32(chunk.data() + 12);
      if (kind == static_cast<std::uint32_t>(codec::chunk_kind::names)) {
        read_names(payload, count_);
      } else if (kind == static_cast<std::uint32_t>(codec::chunk_kind::events) && count_ != 0) {
        at_ = payload.data();
        end_ = at_ + payload.size();
        before_ = {};
        left_ = count_;
        return true;
      }
    }
    return false;
  }

  /// Whether a whole chunk with a right checksum begins at the present position.
  bool is_chunk(std::span<unsigned char const> header) {
    if (header.size() < codec::chunk_header_bytes ||
        std::memcmp(header.data(), codec::chunk_magic.data(), codec::chunk_magic.size()) != 0)
      return false;
    std::size_t const payload_bytes = codec::load32(header.data() + 8);
    if (payload_bytes > codec::max_payload) return false;
    auto const chunk = peek(codec::chunk_header_bytes + payload_bytes);
    if (chunk.size() < codec::chunk_header_bytes + payload_bytes) return false;
    if (codec::crc32c(chunk.subspan(codec::chunk_header_bytes, payload_bytes),
                      codec::crc32c(chunk.first(16))) == codec::load32(chunk.data() + 16))
      return true;
    wrong_bytes_ += payload_bytes;
    return false;
  }

  /// Skips a damaged chunk: moves to the next whole one. Returns false if there is none.
  bool find_chunk() {
    std::uint64_t const begin = source_->offset();
    for (;;) {
      source_->skip(1);  // what begins here is no chunk
      auto window = peek(1 << 16);
      while (window.size() >= codec::chunk_magic.size()) {
        auto const found = std::search(window.begin(), window.end(), codec::chunk_magic.begin(),
                                       codec::chunk_magic.end());
        if (found != window.end()) {
          source_->skip(static_cast<std::size_t>(found - window.begin()));
          break;
        }
        source_->skip(window.size() - (codec::chunk_magic.size() - 1));  // it may begin in the rest
        window = peek(1 << 16);
        if (window.size() < codec::chunk_magic.size()) break;
      }
      auto const header = peek(codec::chunk_header_bytes);
      if (header.size() < codec::chunk_header_bytes) {
        source_->skip(header.size());
        problem(begin, "the last chunk is incomplete or damaged; its events are lost");
        return false;
      }
      if (is_chunk(header)) {
        std::uint64_t const skipped = source_->offset() - begin;
        skipped_bytes_ += skipped;
        problem(begin, "a chunk is damaged; " + std::to_string(skipped) + " bytes are skipped");
        return true;
      }
      // Bounds the time: a hostile file has a wrong chunk of 16 MiB at every 20th byte.
      if (wrong_bytes_ > (codec::max_payload << 2) + 4 * source_->offset()) {
        problem(begin, "too many chunks are damaged; the remainder of the file is skipped");
        is_over_ = true;
        return false;
      }
    }
  }

  void read_names(std::span<unsigned char const> payload, std::uint32_t count) {
    name_table* const tables[] = {&names_.call_sites, &names_.allocators, &names_.threads,
                                  &names_.streams};
    unsigned char const* at = payload.data();
    unsigned char const* const end = at + payload.size();
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t number = 0, length = 0;
      std::size_t const table = at == end ? std::size(tables) : *at++;
      if (table >= std::size(tables) || !codec::read_varint(at, end, number) ||
          !codec::read_varint(at, end, length) || length > static_cast<std::size_t>(end - at)) {
        problem(chunk_offset_, "name " + std::to_string(i) + " of the chunk is invalid");
        return;
      }
      std::string_view const name{reinterpret_cast<char const*>(at), length};
      at += length;
      if (number < tables[table]->size()) {
        if (tables[table]->name(static_cast<std::uint32_t>(number)) != name)
          problem(chunk_offset_,
                  "name " + std::to_string(i) +
                      " of the chunk has the number of an earlier name; it is skipped");
        continue;
      }
      // numbers follow each other, unless a chunk of names was lost
      if (number > tables[table]->size() && !add_lost_names(*tables[table], number)) {
        problem(chunk_offset_, "name " + std::to_string(i) + " of the chunk has the number " +
                                   std::to_string(number) + ", but its table has only " +
                                   std::to_string(tables[table]->size()) + " names");
        return;
      }
      tables[table]->add(name);
    }
  }

  /// `peek`, but the file ends where its compressed data are damaged.
  std::span<unsigned char const> peek(std::size_t count) {
    if (!is_damaged_) {
      try {
        return source_->peek(count);
      } catch (bad_trace const& failure) {
        is_damaged_ = true;
        add_problem(failure.what());
      }
    }
    return source_->read_ahead();
  }
  void problem(std::uint64_t offset, std::string const& reason) {
    add_problem(source_->path() + ", offset " + std::to_string(offset) + ": " + reason);
  }

  std::unique_ptr<byte_source> source_;
  bool is_over_ = false, is_damaged_ = false, has_events_ = false;
  std::uint64_t chunk_offset_ = 0;
  std::size_t chunk_bytes_ = 0;  // of the present chunk, which is not skipped yet
  unsigned char const *at_ = nullptr, *end_ = nullptr;
  std::uint32_t count_ = 0, left_ = 0;  // events of the present chunk: all, and not yet decoded
  codec::context before_ = {};
  std::uint64_t skipped_bytes_ = 0, lost_names_ = 0;
  std::uint64_t wrong_bytes_ = 0;  // of payloads with a wrong checksum
};

}  // namespace

bool looks_like_quarry(std::span<unsigned char const> first_bytes) {
  return first_bytes.size() >= codec::file_magic.size() &&
         std::memcmp(first_bytes.data(), codec::file_magic.data(), codec::file_magic.size()) == 0;
}

std::unique_ptr<reader> open_quarry(std::unique_ptr<byte_source> source) {
  return std::make_unique<quarry_reader>(std::move(source));
}

}  // namespace quarry::inline QUARRY_ABI::trace
