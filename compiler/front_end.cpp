// SPDX-License-Identifier: Apache-2.0
#include "front_end.hpp"

#include "failure.hpp"
#include "unsupported.hpp"

#include <llvm/IR/LLVMContext.h>

#include <unistd.h>
#include <cstdio>
#include <filesystem>

namespace quarry::compiler {
namespace {

void append(std::vector<std::string>& list, std::vector<std::string> const& more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::vector<std::string> common_words(options const& asked, installation const& parts) {
  std::vector<std::string> words{
      parts.clang, "-I" + parts.include,
      // Programs that gcc accepts with a warning get a warning here, too.
      "-Wno-error=implicit-function-declaration", "-Wno-error=implicit-int",
      "-Wno-error=int-conversion", "-Wno-error=incompatible-function-pointer-types",
      "-Wno-error=return-mismatch",
      // The user's -ffast-math overrides options below, which is not worth a warning.
      "-Wno-overriding-option",
      // Headers of the C library have bodies for some functions, which read the host's structures.
      "-D__NO_INLINE__=1",
      // Both machines compute the same: no fused multiply-add, and one algorithm for complex
      // numbers. Options of the user that follow can change it.
      "-ffp-contract=off", "-fcomplex-arithmetic=improved", "-fmath-errno", "-U_FORTIFY_SOURCE"};
  append(words, asked.front_end);
  return words;
}

/// Bitcode without optimisation, since passes must see the program first.
std::vector<std::string> to_bitcode(options const& asked) {
  std::vector<std::string> words{
      "-O1",        "-Xclang", "-disable-llvm-passes", "-g",
      "-emit-llvm", "-c",      "-fno-builtin-malloc",  "-fno-builtin-printf"};
  if (asked.level == 0)  // nothing uses lifetimes and types of memory
    append(words, {"-Xclang", "-disable-lifetime-markers", "-fno-strict-aliasing"});
  if (asked.records_allocations) words.push_back("-gline-tables-only");
  return words;
}

command for_gpu(options const& asked, installation const& parts) {
  auto words = common_words(asked, parts);
  append(words, to_bitcode(asked));
  append(words,
         {"--target=nvptx64-nvidia-cuda", "-march=" + asked.gpu, "-nogpulib", "-w", "-idirafter",
          "/usr/local/include", "-idirafter", "/usr/include/x86_64-linux-gnu", "-idirafter",
          "/usr/include", "-D__x86_64__", "-D__LP64__", "-D__linux__", "-D__unix__"});
  if (!parts.plugin.empty()) words.push_back("-fplugin=" + parts.plugin);
  return {words, {}};
}

command for_cpu(options const& asked, installation const& parts, std::string const& object) {
  auto words = clang_command(asked, parts);
  append(words, to_bitcode(asked));
  words.push_back("-fPIC");
  if (asked.writes_dependencies) {
    if (!asked.names_dependency_file)
      append(words, {"-MF", std::filesystem::path{object}.replace_extension(".d").string()});
    if (!asked.names_dependency_target) append(words, {"-MT", object});
  }
  return {words, {}};
}

/// Prints what Clang wrote about one source. Returns whether the source has no error.
bool report_source(bitcode_files const& files, command const& cpu, int cpu_status,
                   command const& gpu, int gpu_status) {
  std::string const text = read_file(cpu.log);
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (cpu_status != 0) return false;
  if (gpu_status == 0) return true;
  // What only the GPU refuses is mostly inline assembly, of which the CPU's code has all places.
  llvm::LLVMContext context;
  unsupported_list found;
  find_inline_assembly(*parse_module(read_file(files.cpu), files.source, context), found);
  if (found.empty()) {
    std::string const reason = read_file(gpu.log);
    std::fprintf(stderr, "%s%s: note: the CPU accepts this program, a GPU does not\n",
                 reason.c_str(), files.source.c_str());
  } else {
    std::fprintf(stderr, "%s", text_of(found).c_str());
  }
  return false;
}

}  // namespace

std::vector<std::string> clang_command(options const& asked, installation const& parts) {
  auto words = common_words(asked, parts);
  append(words, asked.cpu_front_end);
  return words;
}

std::vector<bitcode_files> compile(std::vector<std::string> const& sources,
                                   std::vector<std::string> const& objects, options const& asked,
                                   installation const& parts, scratch_folder const& scratch) {
  std::vector<bitcode_files> results;
  std::vector<command> commands;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::string const stem = scratch / std::to_string(i);
    bitcode_files files{sources[i], asked.is_for_cpu_only ? "" : stem + ".gpu.bc",
                        stem + ".cpu.bc"};
    auto const add = [&](command wanted, std::string const& path) {
      if (isatty(2) != 0) wanted.words.push_back("-fcolor-diagnostics");
      append(wanted.words,
             {"-x", sources[i].ends_with(".i") ? "cpp-output" : "c", sources[i], "-o", path});
      wanted.log = path + ".log";
      commands.push_back(std::move(wanted));
    };
    add(for_cpu(asked, parts, objects[i]), files.cpu);
    if (!asked.is_for_cpu_only) add(for_gpu(asked, parts), files.gpu);
    results.push_back(std::move(files));
  }
  auto const statuses = run_all(commands, asked.is_verbose);
  std::size_t const step = asked.is_for_cpu_only ? 1 : 2;
  bool is_right = true;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::size_t const cpu = step * i;
    std::size_t const gpu = cpu + step - 1;
    is_right &= report_source(results[i], commands[cpu], statuses[cpu], commands[gpu],
                              asked.is_for_cpu_only ? 0 : statuses[gpu]);
  }
  if (!is_right) throw failure{};
  return results;
}

}  // namespace quarry::compiler
