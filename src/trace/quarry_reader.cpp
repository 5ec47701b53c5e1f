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
    if (header.size() < codec::file_header_bytes || !looks_like_quarry(header))
      throw bad_trace{source_->path() + ": not a trace of Quarry"};
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
      problem(chunk_offset_, "event " + std::to_string(count_ - left_) +
                                 " of the chunk is invalid; its later events are skipped");
      left_ = 0;
      return i;
    }
    left_ -= static_cast<std::uint32_t>(wanted);
    return wanted;
  }
  bool has_names(event const& each) const {
    return each.call_site < names_.call_sites.size() && each.allocator < names_.allocators.size() &&
           each.thread < names_.threads.size() && each.stream < names_.streams.size() &&
           (each.kind != event_kind::wait || each.size < names_.streams.size());
  }

  /// Moves to the next chunk of events. Returns false at the end of the file.
  bool next_events() {
    for (;;) {
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
    return codec::crc32c(chunk.subspan(codec::chunk_header_bytes, payload_bytes),
                         codec::crc32c(chunk.first(16))) == codec::load32(chunk.data() + 16);
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
        problem(begin, "a chunk is damaged; " + std::to_string(source_->offset() - begin) +
                           " bytes are skipped");
        return true;
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
      // numbers follow each other, unless a chunk of names was lost
      while (tables[table]->size() < number && number - tables[table]->size() < (1 << 20))
        (void)tables[table]->number("lost name " + std::to_string(tables[table]->size()));
      if (tables[table]->size() == number) tables[table]->add(name);
    }
  }

  /// `peek`, but damaged compressed data end the file.
  std::span<unsigned char const> peek(std::size_t count) {
    if (is_over_) return {};
    try {
      return source_->peek(count);
    } catch (bad_trace const& failure) {
      is_over_ = true;
      add_problem(failure.what());
      return {};
    }
  }
  void problem(std::uint64_t offset, std::string const& reason) {
    add_problem(source_->path() + ", offset " + std::to_string(offset) + ": " + reason);
  }

  std::unique_ptr<byte_source> source_;
  bool is_over_ = false;
  std::uint64_t chunk_offset_ = 0;
  std::size_t chunk_bytes_ = 0;  // of the present chunk, which is not skipped yet
  unsigned char const *at_ = nullptr, *end_ = nullptr;
  std::uint32_t count_ = 0, left_ = 0;  // events of the present chunk: all, and not yet decoded
  codec::context before_ = {};
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
