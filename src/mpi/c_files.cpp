// SPDX-License-Identifier: Apache-2.0
#include "c_files.hpp"

#include "host_calls.hpp"
#include "output.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_HD bool has_buffer(rank_state& rank, c_file& file) {
  if (file.buffer != nullptr) return true;
  file.buffer = static_cast<char*>(allocate(c_file::reserve + c_file::room));
  if (file.buffer == nullptr) rank.error_number = error_no_memory;
  return file.buffer != nullptr;
}

/// Makes the file one that reads or writes.
QUARRY_HD bool begin_direction(rank_state& rank, c_file& file, bool writes) {
  if (writes ? !file.can_write : !file.can_read) {
    rank.error_number = error_bad_file;
    file.has_failed = true;
    return false;
  }
  if (!has_buffer(rank, file)) {
    file.has_failed = true;
    return false;
  }
  if (file.is_writing == writes) return true;
  if (writes) {
    drop_read_ahead(rank, file);
    file.begin = file.end = 0;
  } else {
    if (!flush_file(rank, file)) return false;
    file.begin = file.end = c_file::reserve;
  }
  file.is_writing = writes;
  return true;
}

}  // namespace

[[nodiscard]] QUARRY_SLOW c_file*& standard_file(c_library& library, int number) {
  c_file*& file = library.standard[number];
  if (file == nullptr) {
    file = static_cast<c_file*>(allocate(sizeof(c_file)));
    if (file == nullptr) return file;
    std::memset(file, 0, sizeof(*file));
    file->handle = number;
    file->can_read = number == 0;
    file->can_write = number != 0;
    file->is_writing = number != 0;
    file->begin = file->end = number == 0 ? c_file::reserve : 0;
  }
  return file;
}

[[nodiscard]] QUARRY_SLOW int read_char(rank_state& rank, c_file& file) {
  if (!file.is_writing && file.begin < file.end)
    return static_cast<unsigned char>(file.buffer[file.begin++]);
  if (!begin_direction(rank, file, false)) return -1;
  std::int64_t got = 0;
  if (file.handle == 0) flush_output(rank);  // a question appears before its answer is read
  if (file.handle != 0 || rank.rank == 0) {  // other ranks have an empty standard input
    host_request const request{.function = host_function::read,
                               .handle = file.handle,
                               .text = file.buffer + c_file::reserve,
                               .length = c_file::room};
    got = ask_host(rank, request).result;
  }
  file.begin = file.end = c_file::reserve;
  if (got <= 0) {
    (got == 0 ? file.is_at_end : file.has_failed) = true;
    return -1;
  }
  file.end += static_cast<std::uint32_t>(got);
  return static_cast<unsigned char>(file.buffer[file.begin++]);
}

QUARRY_SLOW bool unread_char(c_file& file, int c) {
  if (c < 0 || file.buffer == nullptr || file.is_writing || file.begin == 0) return false;
  file.buffer[--file.begin] = static_cast<char>(c);
  file.is_at_end = false;
  return true;
}

QUARRY_SLOW bytes write_bytes(rank_state& rank, c_file& file, char const* data, bytes length) {
  if (file.handle == 1 || file.handle == 2) {
    write_text(rank, static_cast<std::uint8_t>(file.handle), data, length);
    return length;
  }
  if (!begin_direction(rank, file, true)) return 0;
  for (bytes done = 0; done < length;) {
    if (file.end == c_file::room && !flush_file(rank, file)) return done;
    bytes part = c_file::room - file.end;
    if (part > length - done) part = length - done;
    std::memcpy(file.buffer + file.end, data + done, part);
    file.end += static_cast<std::uint32_t>(part);
    done += part;
  }
  return length;
}

QUARRY_SLOW bool flush_file(rank_state& rank, c_file& file) {
  if (file.handle == 1) flush_output(rank);
  if (!file.is_writing || file.end == 0) return true;
  host_request const request{.function = host_function::write,
                             .handle = file.handle,
                             .text = file.buffer,
                             .length = file.end};
  file.end = 0;
  if (ask_host(rank, request).result >= 0) return true;
  file.has_failed = true;
  return false;
}

QUARRY_SLOW void flush_files(rank_state& rank) {
  if (rank.library == nullptr) return;
  for (c_file* file = rank.library->files; file != nullptr; file = file->next)
    flush_file(rank, *file);
}

QUARRY_SLOW void drop_read_ahead(rank_state& rank, c_file& file) {
  if (file.is_writing || file.begin == file.end) return;
  host_request const request{.function = host_function::seek,
                             .handle = file.handle,
                             .offset = -static_cast<std::int64_t>(file.end - file.begin),
                             .origin = 1};
  (void)ask_host(rank, request);
  file.begin = file.end = c_file::reserve;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
