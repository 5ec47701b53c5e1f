// SPDX-License-Identifier: Apache-2.0
#include "fault_core.hpp"

#include <elf.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Types of sections in the driver's core files, as cuda-gdb knows them.
enum section_type : std::uint32_t {
  relocated_code = SHT_LOUSER + 7,
  processors = SHT_LOUSER + 11,
  thread_blocks = SHT_LOUSER + 13,
  warps = SHT_LOUSER + 14,
  lanes = SHT_LOUSER + 15,
};

/// The beginnings of the rows of these sections; newer drivers append fields.
struct processor_row {
  std::uint32_t number, unused, exception;
};
struct thread_block_row {
  std::uint64_t grid;
  std::uint32_t x, y, z;
};
struct warp_row {
  std::uint64_t error_place;
  std::uint32_t number, valid_lanes, active_lanes, is_broken, has_error_place;
};
struct lane_row {
  std::uint64_t place;
  std::uint64_t physical_place;
  std::uint32_t lane, x, y, z, exception;
};

/// An ELF file in memory. Reads nothing outside of it, whatever the file says.
class elf_view {
 public:
  explicit elf_view(std::string_view contents) : contents_{contents} {
    auto const header = at<Elf64_Ehdr>(0);
    // Numbers that do not fit the header are in the first section's.
    auto const first = at<Elf64_Shdr>(header.e_shoff);
    std::uint64_t const count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
    std::uint64_t const names = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
    for (std::uint64_t i = 0; i < count && i < contents.size() / sizeof(Elf64_Shdr); ++i)
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
    if (names < sections_.size()) names_ = sections_[names].sh_offset;
  }

  [[nodiscard]] std::vector<Elf64_Shdr> const& sections() const { return sections_; }
  [[nodiscard]] std::string name(Elf64_Shdr const& section) const {
    return text(names_ + section.sh_name);
  }
  [[nodiscard]] std::string_view contents(Elf64_Shdr const& section) const {
    if (section.sh_offset > contents_.size()) return {};
    return contents_.substr(section.sh_offset, section.sh_size);
  }
  template <class Row>
  [[nodiscard]] std::vector<Row> rows(Elf64_Shdr const& section) const {
    std::vector<Row> result;
    if (section.sh_entsize < sizeof(Row) || section.sh_size > contents_.size()) return result;
    for (std::uint64_t i = 0; i < section.sh_size / section.sh_entsize; ++i)
      result.push_back(at<Row>(section.sh_offset + i * section.sh_entsize));
    return result;
  }
  [[nodiscard]] std::string text(std::uint64_t offset) const {
    if (offset >= contents_.size()) return {};
    auto const rest = contents_.substr(offset);
    return std::string{rest.substr(0, rest.find('\0'))};
  }

 private:
  template <class Value>
  [[nodiscard]] Value at(std::uint64_t offset) const {
    Value result{};
    if (offset <= contents_.size() && contents_.size() - offset >= sizeof(Value))
      std::memcpy(&result, contents_.data() + offset, sizeof(Value));
    return result;
  }

  std::string_view contents_;
  std::vector<Elf64_Shdr> sections_;
  std::uint64_t names_ = 0;
};

/// A function's name in the source; empty if it is the runtime's own.
std::string source_name(std::string name) {
  name = name.substr(0, name.find('$'));  // nvlink numbers static functions
  if (name == "quarry_mpi_main") return "main";
  if (name.starts_with("quarry_c_")) return name.substr(std::strlen("quarry_c_"));
  return name.starts_with("_Z") || name.starts_with("quarry_") ? std::string{} : name;
}

/// The name of the function whose code has the address; empty if it is unknown.
std::string function_at(elf_view const& core, std::uint64_t address) {
  for (Elf64_Shdr const& section : core.sections()) {
    if (section.sh_type != relocated_code) continue;
    elf_view const code{core.contents(section)};
    for (Elf64_Shdr const& table : code.sections()) {
      if (table.sh_type != SHT_SYMTAB || table.sh_link >= code.sections().size()) continue;
      std::uint64_t const names = code.sections()[table.sh_link].sh_offset;
      for (auto const& symbol : code.rows<Elf64_Sym>(table))
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && address - symbol.st_value < symbol.st_size)
          return source_name(code.text(names + symbol.st_name));
    }
  }
  return {};
}

/// The last part of a section's name, as in .cudbg.lntbl.dev0.sm128.cta0.wp3: the number 3 after
/// the prefix "wp"; and the name without it.
std::pair<std::string, std::uint64_t> split(std::string const& name, std::string_view prefix) {
  auto const dot = name.rfind('.');
  if (dot == std::string::npos || name.compare(dot + 1, prefix.size(), prefix) != 0) return {};
  return {name.substr(0, dot), std::strtoull(name.c_str() + dot + 1 + prefix.size(), nullptr, 10)};
}

/// The name after ".cudbg.<table>": the place in the hierarchy.
std::string place_of_section(std::string const& name) {
  auto const table = name.find('.', std::strlen(".cudbg."));
  return table == std::string::npos ? std::string{} : name.substr(table);
}

std::atomic<bool> has_stopped = false;
pthread_t launcher_thread;

/// Stops the driver's thread in abort(). An abort of the launcher itself goes on.
void stop_driver(int) {
  if (pthread_equal(pthread_self(), launcher_thread) != 0) {
    std::signal(SIGABRT, SIG_DFL);
    return;
  }
  has_stopped.store(true, std::memory_order_release);
  for (;;) pause();
}

/// Letters that no other run has: process numbers return, and containers share folders.
std::string random_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 16; ++i) name += static_cast<char>('a' + random() % 26);
  return name;
}

}  // namespace

fault_core::fault_core() {
  if (std::getenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION") != nullptr) return;
  char const* const folder = std::getenv("TMPDIR");
  path_ = std::string{folder != nullptr && *folder != 0 ? folder : "/tmp"} + "/quarry-mpirun-" +
          std::to_string(getpid()) + '-' + random_name() + ".gpu-core";
  setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
  setenv("CUDA_COREDUMP_FILE", path_.c_str(), 1);
  setenv("CUDA_COREDUMP_GENERATION_FLAGS",
         "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
         "skip_constbank_memory",
         1);
  launcher_thread = pthread_self();
  struct sigaction action{};
  action.sa_handler = stop_driver;
  sigaction(SIGABRT, &action, nullptr);
}

bool fault_core::exists() const { return !path_.empty() && access(path_.c_str(), F_OK) == 0; }

bool fault_core::is_written() { return has_stopped.load(std::memory_order_acquire); }

void fault_core::remove() const {
  if (!path_.empty()) unlink(path_.c_str());
}

std::vector<gpu_fault> fault_core::read(std::uint32_t block) const {
  std::vector<gpu_fault> result;
  if (path_.empty()) return result;
  std::ifstream file{path_, std::ios::binary};
  std::string const contents{std::istreambuf_iterator<char>{file}, {}};
  elf_view const core{contents};
  std::map<std::uint64_t, std::string> functions;  // by address: a warp's lanes have the same
  auto const function_of = [&](std::uint64_t address) {
    auto const [found, is_new] = functions.try_emplace(address);
    if (is_new) found->second = function_at(core, address);
    return found->second;
  };
  std::uint32_t any_exception = 0;                              // of a multiprocessor
  std::map<std::string, std::vector<thread_block_row>> blocks;  // by place of the multiprocessor
  std::map<std::string, std::vector<warp_row>> warps_of;        // by place of the thread block
  for (Elf64_Shdr const& section : core.sections()) {
    std::string const place = place_of_section(core.name(section));
    if (section.sh_type == processors)
      for (auto const& row : core.rows<processor_row>(section))
        if (row.exception != 0) any_exception = row.exception;
    if (section.sh_type == thread_blocks) blocks[place] = core.rows<thread_block_row>(section);
    if (section.sh_type == warps) warps_of[place] = core.rows<warp_row>(section);
  }
  for (Elf64_Shdr const& section : core.sections()) {
    if (section.sh_type != lanes) continue;
    auto const [block_place, warp] = split(place_of_section(core.name(section)), "wp");
    auto const [processor, index] = split(block_place, "cta");
    std::uint64_t const device = split(split(processor, "sm").first, "dev").second;
    auto const& of_processor = blocks[processor];
    if (index >= of_processor.size()) continue;
    warp_row at_error{};
    for (warp_row const& row : warps_of[block_place])
      if (row.number == warp && row.has_error_place != 0) at_error = row;
    for (auto const& lane : core.rows<lane_row>(section)) {
      // If the warp has the place, the lanes that were active there have failed. Each lane of the
      // warp has the exception then, or none has one, as after a trap.
      bool const was_active = (at_error.active_lanes >> lane.lane % 32 & 1) != 0;
      if (at_error.has_error_place != 0 ? !was_active : lane.exception == 0) continue;
      result.push_back(
          {device, std::uint64_t{of_processor[index].x} * block + lane.x,
           lane.exception != 0 ? lane.exception : any_exception,
           function_of(at_error.has_error_place != 0 ? at_error.error_place : lane.place)});
    }
  }
  return result;
}

std::string describe_kind(std::uint32_t kind) {
  switch (kind) {
    case 1:
    case 5:
    case 7:
    case 10:
    case 14:
      return "invalid access to memory";
    case 2:
    case 3:
    case 9:
    case 19:
      return "overflow of the stack";
    case 4:
    case 8:
      return "invalid instruction";
    case 6:
    case 11:
      return "misaligned access to memory";
    case 12:
      return "failed assertion";
    default:
      return "exception " + std::to_string(kind);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
