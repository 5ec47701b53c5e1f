// SPDX-License-Identifier: Apache-2.0
#include "object_file.hpp"

#include "failure.hpp"

#include <llvm/BinaryFormat/Magic.h>
#include <llvm/Object/Archive.h>
#include <llvm/Object/ELFObjectFile.h>

#include <fstream>
#include <sstream>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr char const* gpu_section = ".quarry.gpu";
constexpr char const* cpu_section = ".quarry.cpu";

/// Nothing if another compiler made the object.
std::optional<compiled> read_object(MemoryBufferRef buffer, std::string const& name) {
  auto object = object::ObjectFile::createObjectFile(buffer);
  if (!object) {
    consumeError(object.takeError());
    return std::nullopt;
  }
  compiled result{name, {}, {}};
  for (auto const& section : (*object)->sections()) {
    auto title = section.getName();
    auto contents = section.getContents();
    if (title && contents) {
      if (*title == gpu_section) result.gpu = contents->str();
      if (*title == cpu_section) result.cpu = contents->str();
    }
    if (!title) consumeError(title.takeError());
    if (!contents) consumeError(contents.takeError());
  }
  if (result.cpu.empty()) return std::nullopt;
  return result;
}

library read_archive(MemoryBufferRef buffer, std::string const& path) {
  auto const stop = [&](Error error) { throw failure{path + ": " + toString(std::move(error))}; };
  auto archive = object::Archive::create(buffer);
  if (!archive) stop(archive.takeError());
  library result{path, {}, {}};
  Error problem = Error::success();
  for (auto const& child : (*archive)->children(problem)) {
    auto contents = child.getMemoryBufferRef();
    if (!contents) stop(contents.takeError());
    auto title = child.getName();
    if (!title) stop(title.takeError());
    std::string const name = path + "(" + title->str() + ")";
    if (auto member = read_object(*contents, name)) {
      result.members.push_back(std::move(*member));
    } else {
      result.foreign.push_back(name);
    }
  }
  if (problem) stop(std::move(problem));
  return result;
}

}  // namespace

std::string read_file(std::string const& path) {
  std::ifstream stream{path, std::ios::binary};
  if (!stream) throw failure{path + ": cannot be read"};
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

command object_command(std::string const& clang, std::string const& gpu, std::string const& cpu,
                       std::string const& assembly, std::string const& path) {
  std::ofstream text{assembly};
  auto const section = [&](char const* name, std::string const& file) {
    text << "\t.section " << name << ",\"\",@progbits\n\t.incbin \"" << file << "\"\n";
  };
  if (!gpu.empty()) section(gpu_section, gpu);
  section(cpu_section, cpu);
  text << "\t.section .note.GNU-stack,\"\",@progbits\n";
  return {{clang, "-c", assembly, "-o", path}, {}};
}

binary read_binary(std::string const& path) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer) throw failure{path + ": " + buffer.getError().message()};
  binary result;
  file_magic const kind = identify_magic((*buffer)->getBuffer());
  if (kind == file_magic::archive) {
    result.archive = read_archive(**buffer, path);
  } else {
    result.object = read_object(**buffer, path);
    if (!result.object)
      throw failure{path + (kind == file_magic::elf_relocatable
                                ? ": error: another compiler made this object; compile its "
                                  "source with quarry-mpicc"
                                : ": error: this is no C source, object or static library")};
  }
  return result;
}

}  // namespace quarry::compiler
