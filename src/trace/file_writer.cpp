// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/file_writer.hpp"

#include "quarry/core/errors.hpp"
#include "trace/codec.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <sys/file.h>
#include <sys/stat.h>

namespace quarry::inline QUARRY_ABI::trace {

/// The chunk that is being filled. `bytes` begins with room for its header.
struct file_writer::chunk_state {
  std::vector<unsigned char> bytes = std::vector<unsigned char>(
      codec::chunk_header_bytes + events_per_chunk * codec::max_event_bytes);
  std::size_t end = codec::chunk_header_bytes;
  std::uint32_t count = 0;
  codec::context before = {};
};

namespace {

/// Takes the lock of a regular file. Returns false if another open file of the same name has it.
/// A file system without locks never refuses. Pipes and devices may have several writers.
[[nodiscard]] bool take_lock(std::FILE* file) {
  struct stat status = {};
  if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) return true;
  while (flock(fileno(file), LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno != EWOULDBLOCK;
  return true;
}

/// Truncates a regular file. Pipes and devices have no size.
[[nodiscard]] bool make_empty(std::FILE* file) {
  return ftruncate(fileno(file), 0) == 0 || errno == EINVAL;
}

}  // namespace

// The child of a fork shares the lock, so closing the file alone would not end it.
void file_writer::closer::operator()(std::FILE* file) const {
  (void)flock(fileno(file), LOCK_UN);
  (void)std::fclose(file);
}

// Opens the file without truncation: another writer may have it. It is not open after exec.
file_writer::file_writer(std::string const& path)
    : path_{path}, file_{std::fopen(path.c_str(), "abe")}, chunk_{std::make_unique<chunk_state>()} {
  if (path.empty()) throw bad_argument{"trace file: the path is empty; name the file to write"};
  if (!file_) throw resource_failed{path + ": cannot create the file", std::strerror(errno)};
  if (!take_lock(file_.get()))
    throw resource_failed{path + ": cannot create the file",
                          "another recorder writes it; close that one, or use another name"};
  if (!make_empty(file_.get()))
    throw resource_failed{path + ": cannot truncate the file", std::strerror(errno)};
  // Without a buffer of C's library: a fork would write it twice, and a crash would lose it.
  (void)std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  unsigned char header[codec::file_header_bytes] = {};
  std::memcpy(header, codec::file_magic.data(), codec::file_magic.size());
  codec::store32(header + 8, codec::version);
  write(header, sizeof header);
}

file_writer::~file_writer() {
  try {
    close();
  } catch (...) {  // `close` reports errors to those who call it
  }
}

void file_writer::write(void const* data, std::size_t size) {
  if (std::fwrite(data, 1, size, file_.get()) != size)
    throw resource_failed{path_ + ": cannot write the file", std::strerror(errno)};
}

void file_writer::write_names(name_tables const& names) {
  name_table const* const tables[] = {&names.call_sites, &names.allocators, &names.threads,
                                      &names.streams};
  bool has_new_names = false;
  for (std::size_t table = 0; table < std::size(tables); ++table)
    has_new_names |= tables[table]->size() != written_names_[table];
  if (!has_new_names) return;
  std::vector<unsigned char> chunk(codec::chunk_header_bytes);
  std::uint32_t count = 0;
  std::array<std::size_t, std::size(tables)> next{};
  std::copy(std::begin(written_names_), std::end(written_names_), next.begin());
  auto const finish = [&] {
    if (count == 0) return;
    codec::put_chunk_header(chunk.data(), codec::chunk_kind::names, count,
                            std::span{chunk}.subspan(codec::chunk_header_bytes));
    write(chunk.data(), chunk.size());
    std::copy(next.begin(), next.end(), std::begin(written_names_));
    chunk.resize(codec::chunk_header_bytes);
    count = 0;
  };
  for (std::size_t table = 0; table < std::size(tables); ++table) {
    while (next[table] < tables[table]->size()) {
      // a name longer than a chunk is cut; no program has one
      auto const name = std::string_view{tables[table]->names()[next[table]]}.substr(0, 1 << 20);
      unsigned char numbers[21] = {static_cast<unsigned char>(table)};
      unsigned char* end = codec::put_varint(numbers + 1, next[table]);
      end = codec::put_varint(end, name.size());
      chunk.insert(chunk.end(), numbers, end);
      chunk.insert(chunk.end(), name.begin(), name.end());
      ++count;
      ++next[table];
      if (chunk.size() > codec::max_payload / 2) finish();
    }
  }
  finish();
}

void file_writer::write_chunk() {
  if (chunk_->count == 0) return;
  auto const payload = std::span{chunk_->bytes}.subspan(codec::chunk_header_bytes,
                                                        chunk_->end - codec::chunk_header_bytes);
  codec::put_chunk_header(chunk_->bytes.data(), codec::chunk_kind::events, chunk_->count, payload);
  std::size_t const size = std::exchange(chunk_->end, codec::chunk_header_bytes);
  std::uint32_t const count = std::exchange(chunk_->count, 0);
  chunk_->before = {};
  try {
    write(chunk_->bytes.data(), size);
  } catch (...) {
    lost_ += count;
    throw;
  }
}

void file_writer::add(std::span<event const> events, name_tables const& names) {
  if (!file_) throw bad_state{path_ + ": the trace file is closed"};
  write_names(names);
  while (!events.empty()) {
    auto const part = events.first(std::min(events.size(), events_per_chunk - chunk_->count));
    unsigned char* target = chunk_->bytes.data() + chunk_->end;
    codec::context before = chunk_->before;
    for (event const& each : part) target = codec::put_event(target, each, before);
    chunk_->end = static_cast<std::size_t>(target - chunk_->bytes.data());
    chunk_->before = before;
    chunk_->count += static_cast<std::uint32_t>(part.size());
    events_ += part.size();
    events = events.subspan(part.size());
    if (chunk_->count == events_per_chunk) write_chunk();
  }
}

void file_writer::flush() {
  if (!file_) return;
  write_chunk();
  if (std::fflush(file_.get()) != 0)
    throw resource_failed{path_ + ": cannot write the file", std::strerror(errno)};
}

void file_writer::abandon() noexcept {
  if (file_) (void)std::fclose(file_.release());
}

void file_writer::close() {
  if (!file_) return;
  try {
    flush();
  } catch (...) {
    file_.reset();
    throw;
  }
  (void)flock(fileno(file_.get()), LOCK_UN);
  if (std::fclose(file_.release()) != 0)
    throw resource_failed{path_ + ": cannot close the file", std::strerror(errno)};
}

}  // namespace quarry::inline QUARRY_ABI::trace
