// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/rmm_writer.hpp"

#include "quarry/core/errors.hpp"
#include "trace/parse_number.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr char columns[] = "Thread,Time,Action,Pointer,Size,Stream\n";
constexpr std::size_t max_buffered = 1 << 16;

/// The number that stands for an entry of a name table.
unsigned long long number_of(name_table const& names, std::uint32_t entry) {
  if (entry == 0) return 0;
  if (entry < names.size()) {
    parsed_number const parsed = parse_pointer(names.name(entry));
    if (parsed.fault == nullptr) return parsed.value;
  }
  return (1ULL << 63) + entry;
}

char const* action_of(event_kind kind) {
  if (kind == event_kind::fail) return "allocate failure";
  return kind == event_kind::allocate ? "allocate" : "free";
}

}  // namespace

rmm_writer::rmm_writer(std::ostream& output) : output_{output} { write_columns(); }

rmm_writer::rmm_writer(std::string const& path) : file_{path}, output_{file_}, path_{path} {
  if (!file_) throw resource_failed{path + ": cannot create the file", std::strerror(errno)};
  write_columns();
}

template <class Write>
void rmm_writer::checked(Write const& write) {
  errno = 0;
  write();
  if (output_.good()) return;
  if (!path_.empty() && errno != 0)
    throw resource_failed{path_ + ": cannot write the file", std::strerror(errno)};
  throw resource_failed{(path_.empty() ? "rmm_writer" : path_) + ": cannot write",
                        "the stream failed after " + std::to_string(written_) + " rows"};
}

void rmm_writer::write_columns() {
  checked([&] { output_ << columns; });
}

void rmm_writer::write_row(event const& written, bytes size, name_tables const& names) {
  constexpr std::uint64_t microseconds_per_day = 24ULL * 3600 * 1'000'000;
  unsigned long long const time = written.time / 1000 % microseconds_per_day;
  unsigned long long const seconds = time / 1'000'000;
  std::array<char, 40> pointer{"(nil)"}, stream{"0"};  // as RMM writes null
  if (written.address != 0 && written.kind != event_kind::fail)
    std::snprintf(pointer.data(), pointer.size(), "0x%llx",
                  static_cast<unsigned long long>(written.address));
  if (unsigned long long const handle = number_of(names.streams, written.stream); handle != 0)
    std::snprintf(stream.data(), stream.size(), "0x%llx", handle);
  std::array<char, 200> row;
  int const length =
      std::snprintf(row.data(), row.size(), "%llu,%02llu:%02llu:%02llu.%06llu,%s,%s,%llu,%s\n",
                    number_of(names.threads, written.thread), seconds / 3600, seconds / 60 % 60,
                    seconds % 60, time % 1'000'000, action_of(written.kind), pointer.data(),
                    static_cast<unsigned long long>(size), stream.data());
  rows_.append(row.data(), static_cast<std::size_t>(length));
}

void rmm_writer::write(std::span<event const> events, name_tables const& names) {
  auto const drain = [&] {
    checked([&] {
      output_.write(rows_.data(), static_cast<std::streamsize>(rows_.size()));
      rows_.clear();
    });
  };
  for (event const& next : events) {
    bytes size = next.size;
    switch (next.kind) {
      case event_kind::allocate:
        sizes_[next.address] = size;
        break;
      case event_kind::deallocate:
        if (auto const found = sizes_.find(next.address); found != sizes_.end()) {
          if (size == 0) size = found->second;
          sizes_.erase(found);
        }
        break;
      case event_kind::fail:
        break;
      default:
        ++skipped_;
        continue;
    }
    write_row(next, size, names);
    ++written_;
    if (rows_.size() >= max_buffered) drain();
  }
  drain();
}

void rmm_writer::flush() {
  checked([&] { output_.flush(); });
}

}  // namespace quarry::inline QUARRY_ABI::trace
