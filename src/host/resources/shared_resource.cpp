// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/shared_resource.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {
namespace {

constexpr std::uint32_t max_processes = 64, max_allocations = 4096;
constexpr std::uint64_t magic = 0x3130'5952'5241'5551;  // QUARRY01
constexpr bytes data_alignment = 4096;

/// A process and its start time. The start time is needed because the system reuses process ids.
struct process {
  std::atomic<pid_t> id;  // 0: unused entry; written last
  std::uint64_t began;
};
struct allocation {
  // Written last, by a release store: if it is set, the other fields are complete, even if the
  // writer was killed.
  std::atomic<std::uint32_t> is_there;
  char name[64];
  std::uint64_t base;
  bytes size, requested;
  std::array<std::uint32_t, max_processes> references;

  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t result = 0;
    for (std::uint32_t const count : references) result += count;
    return result;
  }
};
struct tables {
  std::atomic<std::uint64_t> is_made;  // magic; written last
  bytes size;                          // of the data
  pthread_mutex_t mutex;
  std::array<process, max_processes> processes;
  std::array<allocation, max_allocations> allocations;
};
constexpr bytes data_begin =
    (sizeof(tables) + data_alignment - 1) / data_alignment * data_alignment;

bool has_other_threads(std::string const& folder, pid_t id) {
  DIR* const tasks = opendir((folder + "/task").c_str());
  if (tasks == nullptr) return false;
  bool found = false;
  while (dirent const* const task = readdir(tasks))
    found |= task->d_name[0] != '.' && task->d_name != std::to_string(id);
  closedir(tasks);
  return found;
}

/// The start time of a process in the kernel's ticks. Returns 0 if the process does not exist, and
/// nullopt if the start time cannot be read now.
std::optional<std::uint64_t> began_at(pid_t id) {
  std::string const folder = "/proc/" + std::to_string(id);
  std::FILE* const file = std::fopen((folder + "/stat").c_str(), "re");
  if (file == nullptr) return errno == ENOENT ? std::optional<std::uint64_t>{0} : std::nullopt;
  char text[1024];
  errno = 0;
  std::size_t const length = std::fread(text, 1, sizeof text - 1, file);
  bool const has_ended = length == 0 && errno == ESRCH;
  std::fclose(file);
  if (has_ended) return 0;
  text[length] = 0;
  char const* field_start = std::strrchr(text, ')');  // the name may contain any byte
  if (field_start == nullptr || field_start[1] == 0) return std::nullopt;
  // The process has ended, but its parent has not waited for it; or only its first thread has
  // ended.
  if ((field_start[2] == 'Z' || field_start[2] == 'X') && !has_other_threads(folder, id)) return 0;
  for (int field = 2; field < 22 && field_start != nullptr; ++field)
    field_start = std::strchr(field_start + 1, ' ');
  if (field_start == nullptr) return std::nullopt;
  return std::strtoull(field_start, nullptr, 10);
}

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
      if (has_entry()) forget(entry_);
      bool const is_last =
          std::none_of(shared_tables().processes.begin(), shared_tables().processes.end(),
                       [](process const& entry) { return entry.id != 0; });
      // A file that still has a name has this name.
      if (is_last && open_file::named_size(file_)) shm_unlink(name_.c_str());
    }
    munmap(base_, mapped_);
    close(file_);
  }

  [[nodiscard]] void* allocate(std::string_view name, bytes requested, bytes alignment,
                               bool may_be_there) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > data_alignment) {
      throw bad_argument{"shared_resource: alignment is " + std::to_string(alignment) +
                         ", not a power of two up to 4096"};
    }
    if (requested > max_bytes_at_once)
      throw out_of_memory{"shared_resource " + name_, requested, request_too_large};
    bytes const size = (std::max<bytes>(requested, 1) + 63) / 64 * 64;
    alignment = std::max<bytes>(alignment, 64);
    guard const lock{*this};
    std::uint32_t const own = own_process();
    if (may_be_there) {
      if (allocation* const existing = find(name)) {
        if (existing->base % alignment != 0)
          throw bad_argument{"shared_resource " + name_ + ": " + std::string{name} +
                             " exists, but it is not aligned to " + std::to_string(alignment)};
        if (existing->requested == requested) return add_reference(*existing, own);
        throw bad_argument{"shared_resource " + name_ + ": " + std::string{name} + " exists with " +
                           std::to_string(existing->requested) + " bytes, not " +
                           std::to_string(requested)};
      }
    }
    for (bool const is_retry : {false, true}) {
      if (is_retry) (void)collect();
      allocation* const free = free_entry();
      auto const base = free == nullptr ? std::nullopt : gap(size, alignment);
      if (!base) continue;
      std::memset(free->name, 0, sizeof free->name);
      std::memcpy(free->name, name.data(), name.size());
      free->base = *base;
      free->size = size;
      free->requested = requested;
      free->references.fill(0);
      free->references[own] = 1;
      if (may_be_there) std::memset(data() + *base, 0, size);
      free->is_there.store(1, std::memory_order_release);
      return data() + *base;
    }
    throw out_of_memory{"shared_resource " + name_, requested,
                        "the segment of " + std::to_string(shared_tables().size) +
                            " bytes has no gap of that size, or all 4096 entries are in use"};
  }
  [[nodiscard]] void* add_reference(std::string_view name) {
    guard const lock{*this};
    allocation* const existing = find(name);
    return existing == nullptr ? nullptr : add_reference(*existing, own_process());
  }
  bool release(void const* pointer) noexcept {
    guard const lock{*this};
    if (!has_entry()) return false;
    auto const base = static_cast<std::uint64_t>(static_cast<char const*>(pointer) - data());
    for (allocation& listed : shared_tables().allocations) {
      if (listed.is_there == 0 || listed.base != base) continue;
      if (listed.references[entry_] == 0) return false;
      if (listed.sum() == 1) {
        // This single store also drops the reference.
        listed.is_there.store(0, std::memory_order_release);
      } else {
        --listed.references[entry_];
      }
      return true;
    }
    return false;
  }
  std::uint32_t collect_locked() {
    guard const lock{*this};
    return collect();
  }
  [[nodiscard]] counts_of_segment counts() {
    guard const lock{*this};
    counts_of_segment result{shared_tables().size, 0, 0, 0, 0};
    for (allocation const& listed : shared_tables().allocations) {
      if (listed.is_there == 0) continue;
      ++result.allocations_in_use;
      result.in_use += listed.size;
      result.references += listed.sum();
    }
    for (process const& entry : shared_tables().processes) result.processes += entry.id != 0;
    return result;
  }
  [[nodiscard]] char* data() const { return static_cast<char*>(base_) + data_begin; }
  [[nodiscard]] bytes size() const { return shared_tables().size; }
  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  /// Holds the segment's lock. The last holder may have died; the tables are correct even then.
  class guard {
   public:
    explicit guard(segment const& locked) : mutex_{locked.shared_tables().mutex} {
      if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { pthread_mutex_unlock(&mutex_); }

   private:
    pthread_mutex_t& mutex_;
  };

  [[nodiscard]] tables& shared_tables() const { return *static_cast<tables*>(base_); }

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
    bool is_new = *length == 0;
    if (is_new && size == 0)
      throw bad_argument{"shared_resource: segment " + name_ +
                         " is empty; pass its size in bytes to make it"};
    if (!is_new && static_cast<bytes>(*length) <= data_begin)
      throw resource_failed{"shared_resource " + name_,
                            "the existing object is not a segment of this library"};
    mapped_ = is_new ? data_begin + (size + data_alignment - 1) / data_alignment * data_alignment
                     : static_cast<bytes>(*length);
    if (is_new) allocate_pages(file.number(), size);
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (base_ == MAP_FAILED)
      throw out_of_memory{"shared_resource " + name_, mapped_, std::strerror(errno)};
    try {
      is_new |= shared_tables().is_made.load(std::memory_order_acquire) == 0;  // its maker died
      if (is_new) make();
      if (shared_tables().is_made != magic || data_begin + shared_tables().size != mapped_)
        throw resource_failed{"shared_resource " + name_,
                              "the existing object is not a segment of this library"};
      if (size != 0 &&
          (size + data_alignment - 1) / data_alignment * data_alignment != shared_tables().size) {
        throw bad_argument{"shared_resource: " + name_ + " exists with " +
                           std::to_string(shared_tables().size) + " bytes, not " +
                           std::to_string(size)};
      }
      guard const lock{*this};
      if (open_file::named_size(file.number())) {
        (void)collect();
        file_ = file.number();
        (void)own_process();
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
  /// Reserves all pages now: a full file system is an error here, not a signal later.
  void allocate_pages(int file, bytes size) const {
    int failed = 0;
    do {
      failed = posix_fallocate(file, 0, static_cast<off_t>(mapped_));
    } while (failed == EINTR);
    if (failed == 0) return;
    (void)!ftruncate(file, 0);
    shm_unlink(name_.c_str());
    throw out_of_memory{"shared_resource " + name_, size, std::strerror(failed)};
  }
  void make() {
    shared_tables().size = mapped_ - data_begin;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared_tables().mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    shared_tables().is_made.store(magic, std::memory_order_release);
  }

  // All functions below require the lock.

  /// Whether this process has an entry in the table of processes. A child of fork has a copy of its
  /// parent's entry number, but no entry of its own.
  [[nodiscard]] bool has_entry() const { return entry_of_ == getpid(); }
  /// The entry of this opening. Makes the entry if there is none.
  [[nodiscard]] std::uint32_t own_process() {
    if (has_entry()) return entry_;
    if (!open_file::named_size(file_))
      throw resource_failed{"shared_resource " + name_,
                            "its last user has closed it; open it again"};
    auto const began = began_at(getpid());
    if (!began || *began == 0)
      throw resource_failed{"shared_resource " + name_,
                            "the start time of this process cannot be read from /proc"};
    for (bool const is_retry : {false, true}) {
      if (is_retry) (void)collect();
      for (std::uint32_t i = 0; i != max_processes; ++i) {
        process& entry = shared_tables().processes[i];
        if (entry.id != 0) continue;
        entry.began = *began;
        entry.id.store(getpid(), std::memory_order_release);
        entry_of_ = getpid();
        return entry_ = i;
      }
    }
    throw out_of_memory{"shared_resource " + name_, 0,
                        "the segment is open 64 times, which is the limit"};
  }
  [[nodiscard]] void* add_reference(allocation& existing, std::uint32_t process) {
    ++existing.references[process];
    return data() + existing.base;
  }
  [[nodiscard]] allocation* find(std::string_view name) const {
    for (allocation& listed : shared_tables().allocations) {
      if (listed.is_there != 0 && name == listed.name) return &listed;
    }
    return nullptr;
  }
  [[nodiscard]] allocation* free_entry() const {
    for (allocation& listed : shared_tables().allocations) {
      if (listed.is_there == 0) return &listed;
    }
    return nullptr;
  }
  /// The lowest offset of a gap that has room. O(n log n).
  [[nodiscard]] std::optional<std::uint64_t> gap(bytes size, bytes alignment) const {
    std::array<std::uint32_t, max_allocations> in_order;
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < max_allocations; ++i) {
      if (shared_tables().allocations[i].is_there != 0) in_order[count++] = i;
    }
    std::sort(in_order.begin(), in_order.begin() + count, [&](std::uint32_t a, std::uint32_t b) {
      return shared_tables().allocations[a].base < shared_tables().allocations[b].base;
    });
    std::uint64_t end = 0;
    for (std::uint32_t i = 0; i <= count; ++i) {
      std::uint64_t const base = (end + alignment - 1) & ~(alignment - 1);
      std::uint64_t const next =
          i == count ? shared_tables().size : shared_tables().allocations[in_order[i]].base;
      if (base <= next && size <= next - base) return base;
      if (i != count) end = next + shared_tables().allocations[in_order[i]].size;
    }
    return std::nullopt;
  }
  /// Drops all references of a process and removes its entry.
  void forget(std::uint32_t number) {
    for (allocation& listed : shared_tables().allocations) {
      if (listed.is_there == 0 || listed.references[number] == 0) continue;
      listed.references[number] = 0;
      if (listed.sum() == 0) listed.is_there.store(0, std::memory_order_release);
    }
    shared_tables().processes[number].id.store(0, std::memory_order_release);
  }
  /// Removes the processes that have ended, and returns their number. Also completes a `forget`
  /// that was interrupted between its stores.
  std::uint32_t collect() {
    std::uint32_t ended = 0;
    for (std::uint32_t i = 0; i != max_processes; ++i) {
      process const& entry = shared_tables().processes[i];
      if (entry.id == 0) continue;
      auto const began = began_at(entry.id);
      if (!began || *began == entry.began) continue;
      forget(i);
      ++ended;
    }
    for (allocation& listed : shared_tables().allocations) {
      if (listed.is_there != 0 && listed.sum() == 0)
        listed.is_there.store(0, std::memory_order_release);
    }
    return ended;
  }

  std::string name_;
  void* base_ = nullptr;
  bytes mapped_ = 0;
  int file_ = -1;
  std::uint32_t entry_ = 0;  // in the table of processes
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
