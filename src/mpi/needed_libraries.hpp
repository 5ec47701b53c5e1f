// SPDX-License-Identifier: Apache-2.0
// The shared libraries that a program names.
#pragma once

#include "quarry/core/abi.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// The names of the libraries that the dynamic linker loads for a program, from its ELF file
/// (`man 5 elf`). Empty if the file is no 64-bit ELF file, is damaged, or is linked statically.
[[nodiscard]] inline std::vector<std::string> needed_libraries(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  auto const read = [&](std::uint64_t offset, void* to, std::size_t size) {
    file.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(size)));
  };
  Elf64_Ehdr head{};
  if (!read(0, &head, sizeof(head)) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  std::vector<Elf64_Phdr> parts(head.e_phnum);
  if (!read(head.e_phoff, parts.data(), parts.size() * sizeof(Elf64_Phdr))) return {};

  std::vector<std::uint64_t> names;  // their offsets in the table of names
  std::uint64_t table = 0;           // its address
  for (Elf64_Phdr const& part : parts) {
    Elf64_Dyn entry{};
    for (std::uint64_t at = 0; part.p_type == PT_DYNAMIC && at < part.p_filesz;
         at += sizeof(entry)) {
      if (!read(part.p_offset + at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) table = entry.d_un.d_ptr;
    }
  }
  std::vector<std::string> result;
  for (Elf64_Phdr const& part : parts) {
    if (part.p_type != PT_LOAD || table < part.p_vaddr || table - part.p_vaddr >= part.p_filesz)
      continue;
    for (std::uint64_t const name : names) {
      file.clear();
      file.seekg(static_cast<std::streamoff>(part.p_offset + (table - part.p_vaddr) + name));
      if (std::string text; std::getline(file, text, '\0')) result.push_back(text);
    }
    break;
  }
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
