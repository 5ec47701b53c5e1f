// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/shared_resource.hpp"

#include "host/resources/process_start.hpp"
#include "quarry/host/detail/segment_tables.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

/// Owns a file descriptor and closes it.
class open_file {
 public:
  explicit open_file(int number) : number_{number} {}
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int keep() { return std::exchange(number_, -1); }
  /// The size of the file, or nullopt if the file has no name any more.
  [[nodiscard]] static std::optional<off_t> named_size(int number) {
    struct stat state{};
    if (fstat(number, &state) != 0 || state.st_nlink == 0) return std::nullopt;
    return state.st_size;
  }

 private:
  int number_;
};

/// Holds a file's lock. The system releases the lock if the process dies.
class file_lock {
 public:
  explicit file_lock(int number) : number_{number} {
    while (flock(number_, LOCK_EX) != 0) {
      if (errno != EINTR) throw resource_failed{"shared_resource: flock", std::strerror(errno)};
    }
  }
  file_lock(file_lock const&) = delete;
  file_lock& operator=(file_lock const&) = delete;
  ~file_lock() { flock(number_, LOCK_UN); }  // a mapping would keep it locked

 private:
  int number_;
};

}  // namespace

/// One mapping of a segment.
class shared_resource::segment {
 public:
  segment(std::string const& name, bytes size) : name_{"/" + name} {
    while (!open(size)) {
    }
  }
  segment(segment const&) = delete;
  segment& operator=(segment const&) = delete;
  ~segment() {
    {
      guard const lock{*this};
      if (has_entry()) tables_.remove_opening(entry_);
      bool is_last = true;
      tables_.each_opening([&](record_number, segment_opening const&) { is_last = false; });
      // A file that still has a name has this name.
      if (is_last && open_file::named_size(file_)) shm_unlink(name_.c_str());
    }
    munmap(base_, mapped_);
    close(file_);
  }

  [[nodiscard]] void* allocate(std::string_view name, bytes requested, bytes alignment,
                               bool may_be_there) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > segment_layout::page) {
      throw bad_argument{"shared_resource: alignment is " + std::to_string(alignment) +
                         ", not a power of two up to 4096"};
    }
    if (requested > max_bytes_at_once)
      throw out_of_memory{"shared_resource " + name_, requested, request_too_large};
    bytes const size = (std::max<bytes>(requested, 1) + 63) / 64 * 64;
    alignment = std::max<bytes>(alignment, 64);
    guard const lock{*this};
    record_number const own = own_opening();
    if (may_be_there) {
      if (segment_allocation* const existing = tables_.find(name)) {
        if (existing->base % alignment != 0)
          throw bad_argument{"shared_resource " + name_ + ": " + std::string{name} +
                             " exists, but it is not aligned to " + std::to_string(alignment)};
        if (existing->requested == requested) return add_reference(*existing, own);
        throw bad_argument{"shared_resource " + name_ + ": " + std::string{name} + " exists with " +
                           std::to_string(existing->requested) + " bytes, not " +
                           std::to_string(requested)};
      }
    }
    bool has_gap = false;
    for (bool const is_retry : {false, true}) {
      if (is_retry && collect() == 0) break;
      auto const place = tables_.find_gap(size, alignment);
      has_gap = place.has_value();
      if (!has_gap) continue;
      if (may_be_there) std::memset(data() + place->base, 0, size);
      if (tables_.add(*place, name, size, requested, own)) return data() + place->base;
    }
    throw out_of_memory{"shared_resource " + name_, requested,
                        has_gap ? std::string{tables_cannot_grow}
                                : "the segment of " + std::to_string(this->size()) +
                                      " bytes has no gap of that size"};
  }
  [[nodiscard]] void* add_reference(std::string_view name) {
    guard const lock{*this};
    segment_allocation* const existing = tables_.find(name);
    return existing == nullptr ? nullptr : add_reference(*existing, own_opening());
  }
  bool release(void const* pointer) noexcept {
    guard const lock{*this};
    return has_entry() &&
           tables_.release(static_cast<std::uint64_t>(static_cast<char const*>(pointer) - data()),
                           entry_);
  }
  std::uint32_t collect_locked() {
    guard const lock{*this};
    return collect();
  }
  [[nodiscard]] counts_of_segment counts() {
    guard const lock{*this};
    counts_of_segment result{size(), 0, 0, 0, 0};
    tables_.each_allocation([&](segment_allocation const& listed) {
      ++result.allocations_in_use;
      result.in_use += listed.size;
      result.references += tables_.references(listed);
    });
    tables_.each_opening([&](record_number, segment_opening const&) { ++result.processes; });
    return result;
  }
  [[nodiscard]] char* data() const { return tables_.data(); }
  [[nodiscard]] bytes size() const { return tables_.header().size; }
  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  static constexpr char const* tables_cannot_grow =
      "the tables of the segment cannot grow: shared memory is full, or the segment has 2^16 "
      "openings, 2^24 allocations or 2^22 further references";

  /// Holds the segment's lock. If the last holder was killed, completes what it was doing.
  class guard {
   public:
    explicit guard(segment& locked) : mutex_{locked.tables_.header().mutex} {
      if (pthread_mutex_lock(&mutex_) != EOWNERDEAD) return;
      pthread_mutex_consistent(&mutex_);
      locked.tables_.recover();
    }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { pthread_mutex_unlock(&mutex_); }

   private:
    pthread_mutex_t& mutex_;
  };

  /// Opens or makes the segment. Returns false if the opened file lost its name meanwhile, because
  /// its last user closed it.
  bool open(bytes size) {
    open_file file{shm_open(name_.c_str(), O_RDWR | O_CLOEXEC | (size == 0 ? 0 : O_CREAT), 0600)};
    if (file.number() < 0 && errno == ENOENT)
      throw bad_argument{"shared_resource: segment " + name_ +
                         " does not exist; pass its size in bytes to make it"};
    if (file.number() < 0)
      throw resource_failed{"shared_resource: shm_open of " + name_, std::strerror(errno)};
    file_lock const making{file.number()};
    auto const length = open_file::named_size(file.number());
    if (!length) return false;
    auto const existing = *length == 0 ? std::nullopt : existing_size(file.number(), *length);
    if (!existing && size == 0)
      throw bad_argument{"shared_resource: segment " + name_ +
                         " is empty; pass its size in bytes to make it"};
    segment_layout const layout{existing.value_or(size)};
    if (*length != 0 && static_cast<bytes>(*length) != layout.end) throw foreign_object();
    if (!existing) reserve(file.number(), layout);
    mapped_ = layout.end;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (base_ == MAP_FAILED)
      throw out_of_memory{"shared_resource " + name_, mapped_, std::strerror(errno)};
    tables_ = {base_, file.number()};
    try {
      if (!existing) make(file.number(), layout);
      if (size != 0 && segment_layout{size}.size != layout.size) {
        throw bad_argument{"shared_resource: " + name_ + " exists with " +
                           std::to_string(layout.size) + " bytes, not " + std::to_string(size)};
      }
      guard const lock{*this};
      if (open_file::named_size(file.number())) {
        (void)collect();
        file_ = file.number();
        (void)own_opening();
        (void)file.keep();
        return true;
      }
    } catch (...) {
      munmap(base_, mapped_);
      throw;
    }
    munmap(base_, mapped_);
    return false;
  }

  [[nodiscard]] resource_failed foreign_object() const {
    return {"shared_resource " + name_, "the existing object is not a segment of this library"};
  }
  /// The size of the data of an existing file, or nullopt if its maker was killed before it was
  /// complete. Throws `resource_failed` if the file is not a segment of this layout.
  [[nodiscard]] std::optional<bytes> existing_size(int file, off_t length) const {
    struct {
      std::uint64_t mark;
      bytes size;
    } start{};
    if (length < static_cast<off_t>(sizeof(segment_header)) ||
        pread(file, &start, sizeof start, 0) != static_cast<ssize_t>(sizeof start))
      throw foreign_object();
    if (start.mark == segment_layout::mark) return start.size;
    if (start.mark == 0) return std::nullopt;
    if (start.mark << 16 != segment_layout::first_text << 16) throw foreign_object();
    auto const digits = [](std::uint64_t mark) {
      return std::string{static_cast<char>(mark >> 48 & 255), static_cast<char>(mark >> 56)};
    };
    throw resource_failed{"shared_resource " + name_,
                          "another version of this library made the segment, with layout " +
                              digits(start.mark) + "; this version uses layout " +
                              digits(segment_layout::mark) +
                              ". Use one version in all processes, or another name"};
  }
  /// Gives the file its length, and pages for the data and the header.
  void reserve(int file, segment_layout const& layout) const {
    int failed = ftruncate(file, static_cast<off_t>(layout.end)) == 0 ? 0 : errno;
    if (failed == 0)
      failed =
          segment_tables::reserve_pages(file, 0, segment_layout::pages(sizeof(segment_header)));
    if (failed == 0) failed = segment_tables::reserve_pages(file, layout.data, layout.size);
    if (failed != 0) abandon(file, layout.size, failed);
  }
  [[noreturn]] void abandon(int file, bytes size, int failed) const {
    (void)!ftruncate(file, 0);
    shm_unlink(name_.c_str());
    throw out_of_memory{"shared_resource " + name_, size, std::strerror(failed)};
  }
  void make(int file, segment_layout const& layout) {
    if (int const failed = tables_.make(layout); failed != 0) abandon(file, layout.size, failed);
    segment_header& made = tables_.header();
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&made.mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    made.layout = segment_layout::mark;
  }

  // All functions below require the lock.

  /// Whether this process has an entry in the table of openings. A child of fork has a copy of its
  /// parent's entry number, but no entry of its own.
  [[nodiscard]] bool has_entry() const { return entry_of_ == getpid(); }
  /// The entry of this opening. Makes the entry if there is none.
  [[nodiscard]] record_number own_opening() {
    if (has_entry()) return entry_;
    if (!open_file::named_size(file_))
      throw resource_failed{"shared_resource " + name_,
                            "its last user has closed it; open it again"};
    auto const began = began_at(getpid());
    if (!began || *began == 0)
      throw resource_failed{"shared_resource " + name_,
                            "the start time of this process cannot be read from /proc"};
    record_number number = tables_.add_opening(getpid(), *began);
    if (number == 0 && collect() != 0) number = tables_.add_opening(getpid(), *began);
    if (number == 0) throw out_of_memory{"shared_resource " + name_, 0, tables_cannot_grow};
    entry_of_ = getpid();
    return entry_ = number;
  }
  [[nodiscard]] void* add_reference(segment_allocation& existing, record_number opening) {
    if (!tables_.add_reference(existing, opening))
      throw out_of_memory{"shared_resource " + name_, 0, tables_cannot_grow};
    return data() + existing.base;
  }
  /// Removes the processes that have ended, and returns their number.
  std::uint32_t collect() {
    std::uint32_t ended = 0;
    tables_.each_opening([&](record_number number, segment_opening const& opening) {
      auto const began = began_at(opening.id);
      if (!began || *began == opening.began) return;
      tables_.remove_opening(number);
      ++ended;
    });
    return ended;
  }

  std::string name_;
  void* base_ = nullptr;
  bytes mapped_ = 0;
  int file_ = -1;
  segment_tables tables_;
  record_number entry_ = 0;  // in the table of openings
  pid_t entry_of_ = 0;       // the process that made the entry
};

shared_resource::shared_resource(std::string name, bytes size) {
  if (name.empty() || name.size() > 200 ||
      name.find_first_of(std::string_view{"/\0", 2}) != std::string::npos) {
    throw bad_argument{"shared_resource: the name '" + name +
                       "' is empty, has more than 200 characters, or contains '/' or a zero byte"};
  }
  if (size > max_bytes_at_once)
    throw out_of_memory{"shared_resource " + name, size, request_too_large};
  segment_ = std::make_unique<segment>(name, size);
}
shared_resource::shared_resource(shared_resource&& other) noexcept = default;
shared_resource& shared_resource::operator=(shared_resource&& other) noexcept = default;
shared_resource::~shared_resource() = default;

void* shared_resource::allocate(bytes size, bytes alignment) {
  return segment_->allocate("", size, alignment, false);
}
void shared_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  (void)segment_->release(pointer);
}

void* shared_resource::allocate(std::string_view name, bytes size, bytes alignment) {
  if (name.empty() || name.size() > 63 || name.find('\0') != std::string_view::npos)
    throw bad_argument{"shared_resource: the name '" + std::string{name} +
                       "' does not have 1 to 63 bytes, or contains a zero byte"};
  return segment_->allocate(name, size, alignment, true);
}
void* shared_resource::find(std::string_view name) {
  return name.empty() ? nullptr : segment_->add_reference(name);
}
bool shared_resource::release(void* pointer) noexcept { return segment_->release(pointer); }
std::uint32_t shared_resource::collect() { return segment_->collect_locked(); }
shared_resource::counts_of_segment shared_resource::counts() const { return segment_->counts(); }

std::uint64_t shared_resource::offset_of(void const* pointer) const {
  auto const offset =
      static_cast<std::uint64_t>(static_cast<char const*>(pointer) - segment_->data());
  if (offset >= segment_->size())
    throw bad_argument{"shared_resource: the address is not in segment " + segment_->name()};
  return offset;
}
void* shared_resource::at(std::uint64_t offset) const {
  if (offset >= segment_->size())
    throw bad_argument{"shared_resource: offset " + std::to_string(offset) +
                       " is beyond the end of segment " + segment_->name() + " (" +
                       std::to_string(segment_->size()) + " bytes)"};
  return segment_->data() + offset;
}

}  // namespace quarry::inline QUARRY_ABI
