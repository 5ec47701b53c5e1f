// SPDX-License-Identifier: Apache-2.0
// The C library's functions for files, but for printf and scanf.
#include "c_files.hpp"
#include "host_calls.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

// The flags of open(2) on Linux for x86-64.
constexpr int open_write = 1, open_both = 2, open_create = 0100, open_exclusive = 0200,
              open_truncate = 01000, open_append = 02000;

/// The flags of open(2) for a mode of fopen; -1 if the mode is not valid.
QUARRY_HD int open_flags(char const* mode) {
  bool has_plus = false;
  bool is_exclusive = false;
  for (char const* c = mode + 1; mode[0] != 0 && *c != 0; ++c) {
    has_plus |= *c == '+';
    is_exclusive |= *c == 'x';
  }
  int const direction = has_plus ? open_both : open_write;
  int const exclusive = is_exclusive ? open_exclusive : 0;
  switch (mode[0]) {
    case 'r':
      return has_plus ? open_both : 0;
    case 'w':
      return direction | open_create | open_truncate | exclusive;
    case 'a':
      return direction | open_create | open_append | exclusive;
    default:
      return -1;
  }
}

/// A request whose text is a path.
QUARRY_HD std::int64_t ask_about(host_function function, char const* path, int handle = 0) {
  rank_state& rank = self();
  std::uint32_t length = 0;
  while (path[length] != 0 && length < host_call_bytes - 1) ++length;
  if (path[length] != 0) {
    rank.error_number = error_name_too_long;
    return -1;
  }
  host_request const request{.function = function,
                             .handle = handle,
                             .text = const_cast<char*>(path),
                             .length = length + 1};
  return ask_host(rank, request).result;
}

QUARRY_SLOW int seek(c_file& file, std::int64_t offset, int origin) {
  rank_state& rank = self();
  if (!flush_file(rank, file)) return -1;
  drop_read_ahead(rank, file);
  host_request const request{
      .function = host_function::seek, .handle = file.handle, .offset = offset, .origin = origin};
  if (ask_host(rank, request).result < 0) return -1;
  file.is_at_end = false;
  return 0;
}

QUARRY_SLOW std::int64_t tell(c_file& file) {
  host_request const request{
      .function = host_function::seek, .handle = file.handle, .offset = 0, .origin = 1};
  std::int64_t const at = ask_host(self(), request).result;
  if (at < 0) return at;
  return file.is_writing ? at + file.end : at - (file.end - file.begin);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_SLOW void* quarry_c_realloc(void* old, unsigned long size);

QUARRY_SLOW c_file* quarry_c_fopen(char const* path, char const* mode) {
  rank_state& rank = self();
  int const flags = open_flags(mode);
  if (flags < 0) {
    rank.error_number = error_invalid;
    return nullptr;
  }
  c_library& library = own_library();
  auto* const file = static_cast<c_file*>(allocate(sizeof(c_file)));
  if (file == nullptr) {
    rank.error_number = error_no_memory;
    return nullptr;
  }
  auto const handle = ask_about(host_function::open, path, flags);
  if (handle < 0) {
    release(file);
    return nullptr;
  }
  std::memset(file, 0, sizeof(*file));
  file->handle = static_cast<int>(handle);
  file->can_read = (flags & 3) != open_write;
  file->can_write = (flags & 3) != 0;
  file->begin = file->end = c_file::reserve;
  file->next = library.files;
  library.files = file;
  return file;
}
QUARRY_HD c_file* quarry_c_fopen64(char const* path, char const* mode) {
  return quarry_c_fopen(path, mode);
}

QUARRY_HD int quarry_c_fflush(c_file* file) {
  rank_state& rank = self();
  if (file != nullptr) return flush_file(rank, *file) ? 0 : -1;
  flush_files(rank);
  flush_file(rank, *standard_file(own_library(), 1));
  return 0;
}

QUARRY_HD int quarry_c_fclose(c_file* file) {
  rank_state& rank = self();
  bool is_good = flush_file(rank, *file);
  drop_read_ahead(rank, *file);
  if (file->handle <= 2) return 0;
  host_request const request{.function = host_function::close, .handle = file->handle};
  is_good = ask_host(rank, request).result == 0 && is_good;
  c_file** link = &own_library().files;
  while (*link != nullptr && *link != file) link = &(*link)->next;
  if (*link == file) *link = file->next;
  if (file->buffer != nullptr) release(file->buffer);
  release(file);
  return is_good ? 0 : -1;
}

QUARRY_HD int quarry_c_fgetc(c_file* file) { return read_char(self(), *file); }
QUARRY_HD int quarry_c_getc(c_file* file) { return read_char(self(), *file); }
QUARRY_HD int quarry_c_getchar() { return read_char(self(), *standard_file(own_library(), 0)); }
QUARRY_HD int quarry_c_ungetc(int c, c_file* file) { return unread_char(*file, c) ? c : -1; }

QUARRY_HD char* quarry_c_fgets(char* line, int size, c_file* file) {
  rank_state& rank = self();
  int length = 0;
  while (length + 1 < size) {
    int const c = read_char(rank, *file);
    if (c < 0) break;
    line[length++] = static_cast<char>(c);
    if (c == '\n') break;
  }
  if (size < 1 || (length == 0 && size > 1)) return nullptr;
  line[length] = 0;
  return line;
}

/// Also getline, which glibc's header defines by it.
QUARRY_SLOW long quarry_c___getdelim(char** line, unsigned long* size, int delimiter,
                                     c_file* file) {
  rank_state& rank = self();
  unsigned long length = 0;
  for (;;) {
    if (*line == nullptr || length + 2 > *size) {
      unsigned long const larger = *line == nullptr ? 128 : 2 * (*size + 1);
      void* const moved = quarry_c_realloc(*line, larger);
      if (moved == nullptr) return -1;
      *line = static_cast<char*>(moved);
      *size = larger;
    }
    int const c = read_char(rank, *file);
    if (c < 0) break;
    (*line)[length++] = static_cast<char>(c);
    if (c == delimiter) break;
  }
  (*line)[length] = 0;
  return length == 0 ? -1 : static_cast<long>(length);
}
QUARRY_HD long quarry_c_getdelim(char** line, unsigned long* size, int delimiter, c_file* file) {
  return quarry_c___getdelim(line, size, delimiter, file);
}
QUARRY_HD long quarry_c_getline(char** line, unsigned long* size, c_file* file) {
  return quarry_c___getdelim(line, size, '\n', file);
}

QUARRY_HD unsigned long quarry_c_fread(void* data, unsigned long size, unsigned long count,
                                       c_file* file) {
  rank_state& rank = self();
  auto* const to = static_cast<char*>(data);
  unsigned long const total = size * count;
  unsigned long done = 0;
  while (done < total) {
    int const c = read_char(rank, *file);
    if (c < 0) return done / size;
    to[done++] = static_cast<char>(c);
    unsigned long part = file->end - file->begin;
    if (part > total - done) part = total - done;
    std::memcpy(to + done, file->buffer + file->begin, part);
    file->begin += static_cast<std::uint32_t>(part);
    done += part;
  }
  return size == 0 ? 0 : count;
}
QUARRY_HD unsigned long quarry_c_fwrite(void const* data, unsigned long size, unsigned long count,
                                        c_file* file) {
  if (size == 0) return 0;
  return write_bytes(self(), *file, static_cast<char const*>(data), size * count) / size;
}

QUARRY_HD int quarry_c_fseek(c_file* file, long offset, int origin) {
  return seek(*file, offset, origin);
}
QUARRY_HD int quarry_c_fseeko(c_file* file, long offset, int origin) {
  return seek(*file, offset, origin);
}
QUARRY_HD long quarry_c_ftell(c_file* file) { return tell(*file); }
QUARRY_HD long quarry_c_ftello(c_file* file) { return tell(*file); }
QUARRY_HD void quarry_c_rewind(c_file* file) {
  (void)seek(*file, 0, 0);
  file->has_failed = false;
}
QUARRY_HD int quarry_c_fgetpos(c_file* file, c_file_position* position) {
  position->offset = tell(*file);
  return position->offset < 0 ? -1 : 0;
}
QUARRY_HD int quarry_c_fsetpos(c_file* file, c_file_position const* position) {
  return seek(*file, position->offset, 0);
}

QUARRY_HD int quarry_c_feof(c_file* file) { return file->is_at_end ? 1 : 0; }
QUARRY_HD int quarry_c_ferror(c_file* file) { return file->has_failed ? 1 : 0; }
QUARRY_HD void quarry_c_clearerr(c_file* file) { file->is_at_end = file->has_failed = false; }
QUARRY_HD int quarry_c_fileno(c_file* file) { return file->handle; }
QUARRY_HD int quarry_c_setvbuf(c_file*, char*, int, unsigned long) { return 0; }
QUARRY_HD void quarry_c_setbuf(c_file*, char*) {}
QUARRY_HD void quarry_c_setlinebuf(c_file*) {}

QUARRY_HD int quarry_c_remove(char const* path) {
  return static_cast<int>(ask_about(host_function::remove, path));
}
QUARRY_HD int quarry_c_unlink(char const* path) { return quarry_c_remove(path); }
QUARRY_HD int quarry_c_access(char const* path, int mode) {
  return static_cast<int>(ask_about(host_function::access, path, mode));
}
QUARRY_HD int quarry_c_mkdir(char const* path, unsigned mode) {
  return static_cast<int>(ask_about(host_function::make_folder, path, static_cast<int>(mode)));
}
QUARRY_HD int quarry_c_rename(char const* old_path, char const* new_path) {
  char both[512];
  std::uint32_t length = 0;
  for (char const* path : {old_path, new_path}) {
    for (; *path != 0 && length < sizeof(both) - 2; ++path) both[length++] = *path;
    both[length++] = 0;
  }
  host_request const request{.function = host_function::rename, .text = both, .length = length};
  return static_cast<int>(ask_host(self(), request).result);
}

}  // extern "C"
