// SPDX-License-Identifier: Apache-2.0
#include "process_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

quarry::mpi::process_layout quarry_mpi_processes;
std::uint64_t* quarry_mpi_round = nullptr;

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr std::uint64_t page = 4096;

/// Where this process finds the memory of the others.
struct mapped_memory {
  char* first = nullptr;  // of process 0
  char* own = nullptr;
  std::uint64_t size = 0;  // of each process
  std::uint64_t seed = 0;
};
mapped_memory mapped;

/// A word on its way, behind the bytes of its block.
struct put_word {
  std::uint64_t* to;
  std::uint64_t value;
  char* block = nullptr;
  std::vector<char> data = {};  // of the block, from its begin
  std::size_t left = 0;         // of the data, in bytes: what is not delivered

  /// Delivers half of the block, or what is left of it, or else the word. Returns whether it was
  /// the word.
  bool deliver() {
    if (left != 0) {
      std::size_t const size = left == data.size() ? (left + 1) / 2 : left;
      std::memcpy(block + (left - size), data.data() + (left - size), size);
      left -= size;
      return false;
    }
    std::atomic_ref{*to}.store(value, std::memory_order_release);
    return true;
  }
};

/// The words of all threads that are not delivered.
std::atomic<std::uint64_t> undelivered = 0;

/// The words that a thread has put and that are not delivered, with a seed.
class late_words {
 public:
  void add(put_word word) {
    constexpr std::size_t most = 64;
    undelivered.fetch_add(1);
    waiting_.push_back(std::move(word));
    while (waiting_.size() > most) deliver_one();
    if (random(4) == 0) deliver_one();
  }
  void deliver_some() {
    if (random(2) == 0) return;
    for (auto count = random(static_cast<std::uint32_t>(waiting_.size()) + 1); count != 0; --count)
      deliver_one();
  }
  void deliver_all() {
    while (!waiting_.empty()) deliver_one();
  }

 private:
  void deliver_one() {
    if (waiting_.empty()) return;
    std::swap(waiting_[random(static_cast<std::uint32_t>(waiting_.size()))], waiting_.back());
    if (!waiting_.back().deliver()) return;
    waiting_.pop_back();
    undelivered.fetch_sub(1);
  }
  std::uint32_t random(std::uint32_t end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state_ >> 33) % end);
  }

  std::vector<put_word> waiting_;
  std::uint64_t state_ = mapped.seed;
};
thread_local late_words late;

/// What is at the same place of another process.
template <class T>
T* in_process(T* place, std::uint32_t process) {
  auto const offset = reinterpret_cast<char*>(place) - mapped.own;
  return reinterpret_cast<T*>(mapped.first + process * mapped.size + offset);
}

/// What the file begins with.
struct file_head {
  std::uint32_t count;
  std::uint32_t unused;
  std::uint64_t size;
};

[[noreturn]] void fail_to(char const* what, std::string const& file) {
  throw bad_argument{"the processes' file " + file + ": cannot " + what + ": " +
                     std::strerror(errno)};
}

[[nodiscard]] bool write_head(int descriptor, file_head const& head, std::uint64_t all_bytes) {
  return ftruncate(descriptor, static_cast<off_t>(all_bytes)) == 0 &&
         write(descriptor, &head, sizeof(head)) == sizeof(head);
}

/// Other processes see the file when it is complete.
void make_file(std::string const& file, file_head const& head, std::uint64_t all_bytes) {
  std::string const made = file + ".new";
  int const descriptor = open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) fail_to("make it", file);
  bool const is_written = write_head(descriptor, head, all_bytes);
  close(descriptor);
  if (!is_written || std::rename(made.c_str(), file.c_str()) != 0) fail_to("write it", file);
}

/// For a single process.
int make_file_without_name(file_head const& head, std::uint64_t all_bytes) {
  int const descriptor = memfd_create("quarry", MFD_CLOEXEC);
  if (descriptor < 0 || !write_head(descriptor, head, all_bytes)) fail_to("make it", "in memory");
  return descriptor;
}

int open_file(std::string const& file) {
  constexpr int most_looks = 6000;  // a minute
  for (int i = 0; i < most_looks; ++i) {
    int const descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  fail_to("open it after a minute; is process 0 running?", file);
}

}  // namespace

process_memory::process_memory(std::string const& file, std::uint32_t own, std::uint32_t count,
                               std::uint64_t size, std::uint64_t seed)
    : size_{(size + page - 1) / page * page} {
  all_bytes_ = page + count * size_;
  file_head const wanted{count, 0, size_};
  if (own == 0 && !file.empty()) make_file(file, wanted, all_bytes_);
  int const descriptor =
      file.empty() ? make_file_without_name(wanted, all_bytes_) : open_file(file);
  void* const all = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  constexpr std::uint64_t first_address = std::uint64_t{0x10} << 40;
  constexpr std::uint64_t distance = std::uint64_t{1} << 36;
  void* const part =
      mmap(reinterpret_cast<void*>(first_address + own * distance), size_, PROT_READ | PROT_WRITE,
           MAP_SHARED, descriptor, static_cast<off_t>(page + own * size_));
  int const error = errno;
  close(descriptor);
  errno = error;
  if (all == MAP_FAILED || part == MAP_FAILED) fail_to("map it", file);
  all_ = static_cast<char*>(all);
  own_ = static_cast<char*>(part);
  file_head const& head = *reinterpret_cast<file_head const*>(all_);
  if (head.count != count || head.size != size_)
    throw bad_argument{"the processes' file " + file +
                       " is of another program, or the processes have different options"};
  mapped = {all_ + page, own_, size_, seed == 0 ? 0 : seed * 2 * count + 2 * own + 1};
}

bool process_memory::has_late_words() { return undelivered.load() != 0; }

process_memory::~process_memory() {
  mapped = {};
  munmap(all_, all_bytes_);
  munmap(own_, size_);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

void quarry_mpi_put(std::uint64_t* word, std::uint64_t value, std::uint32_t process) {
  std::uint64_t* const to = in_process(word, process);
  if (mapped.seed != 0) return late.add({to, value});
  std::atomic_ref{*to}.store(value, std::memory_order_relaxed);
}

void quarry_mpi_put_block(char* to, char const* data, std::uint64_t size, std::uint64_t* word,
                          std::uint64_t value, std::uint32_t process) {
  put_word made{in_process(word, process), value, in_process(to, process)};
  if (mapped.seed != 0) {
    made.data.assign(data, data + size);
    made.left = size;
    return late.add(std::move(made));
  }
  std::memcpy(made.block, data, size);
  (void)made.deliver();
}

std::uint64_t quarry_mpi_fetch_add(std::uint64_t* word, std::uint64_t change,
                                   std::uint32_t process) {
  if (mapped.seed != 0) late.deliver_some();
  return std::atomic_ref{*in_process(word, process)}.fetch_add(change, std::memory_order_acquire);
}

void quarry_mpi_deliver() {
  if (mapped.seed != 0) late.deliver_some();
  thread_local std::uint32_t calls = 0;
  if (++calls % 64 == 0) std::this_thread::yield();  // the processes may share cores
}

void quarry_mpi_deliver_all() { late.deliver_all(); }
}
