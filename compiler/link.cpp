// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include "back_end.hpp"
#include "failure.hpp"
#include "report.hpp"
#include "translate.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>

namespace quarry::compiler {
namespace {

void write_texts(std::vector<std::string> const& texts, std::string const& path) {
  std::ofstream file{path, std::ios::binary};
  for (auto const& text : texts) file << text << '\0';
}

/// Throws a failure with the output of the first command that fails.
void run_each(std::vector<command> const& commands, bool is_verbose) {
  auto const statuses = run_all(commands, is_verbose);
  for (std::size_t i = 0; i < statuses.size(); ++i)
    if (statuses[i] != 0)
      throw failure{"the program's code for the GPU cannot be made; " + commands[i].words[0] +
                    " says:\n" + read_file(commands[i].log)};
}

/// Writes the machine code for each limit of registers: program<registers>.cubin for one GPU,
/// program<registers>_system.cubin for several.
void make_cubins(options const& asked, installation const& installed,
                 scratch_folder const& scratch) {
  std::vector<command> assemblies;
  std::vector<command> links;
  for (auto const& [registers, runtime, system_runtime, processes_runtime, transport] :
       installed.runtimes) {
    std::string const name = scratch / ("program" + registers);
    std::string const object = name + ".gpu.o";
    assemblies.push_back({{installed.ptxas, "-v", "-c", "-arch=" + asked.gpu,
                           "-maxrregcount=" + registers, scratch / "program.ptx", "-o", object},
                          name + ".ptxas.log"});
    auto const link_with = [&](std::vector<std::string> const& with, std::string const& to) {
      std::vector<std::string> words{installed.nvlink, "-m64", "--arch=" + asked.gpu, object};
      words.insert(words.end(), with.begin(), with.end());
      words.insert(words.end(), {"-o", to + ".cubin"});
      links.push_back({words, to + ".nvlink.log"});
    };
    if (asked.spans_processes) {
      link_with({processes_runtime, transport, installed.nvshmem}, name);
      continue;
    }
    link_with({runtime}, name);
    link_with({system_runtime}, name + "_system");
  }
  run_each(assemblies, asked.is_verbose);
  run_each(links, asked.is_verbose);
}

std::string explained(std::vector<allocation_site> const& sites, explanation form) {
  if (form == explanation::json) return explain_json(sites);
  return form == explanation::source ? explain_source(sites) : explain_text(sites);
}

/// An assembly file that has the contents of files as constants, by name.
class constants {
 public:
  /// `<name>` and `<name>_end` enclose the file's contents. Without a file, the contents are empty.
  void add(std::string const& name, std::string const& file) {
    text_ += "\t.globl " + name + "\n\t.balign 16\n" + name + ":\n";
    if (!file.empty()) text_ += "\t.incbin \"" + file + "\"\n";
    text_ += "\t.globl " + name + "_end\n" + name + "_end:\n\t.byte 0\n";
  }
  /// `<name>` is an array of 64-bit numbers.
  void add_numbers(std::string const& name, std::vector<std::uint64_t> const& numbers) {
    text_ += "\t.globl " + name + "\n\t.balign 16\n" + name + ":\n";
    for (std::uint64_t const number : numbers) text_ += "\t.quad " + std::to_string(number) + '\n';
  }
  void write(std::string const& path) const {
    std::ofstream{path} << "\t.section .rodata\n"
                        << text_ << "\t.section .note.GNU-stack,\"\",@progbits\n";
  }

 private:
  std::string text_;
};

}  // namespace

std::string link_program(std::vector<compiled> const& parts, options const& asked,
                         installation const& installed, scratch_folder const& scratch) {
  check_definitions(parts);
  if (asked.spans_processes && (asked.checks_calls || asked.traces_calls))
    throw failure{std::string{asked.checks_calls ? "--check" : "--trace"} +
                  ": ranks of several processes cannot have it yet; link without --processes"};
  auto const runtime_functions = names_in(installed.functions);
  initialise_back_ends();
  auto const work = [&](program& whole, std::string const& name) {
    whole.join(parts);
    return translate(whole, asked, installed, runtime_functions, scratch / name);
  };
  program gpu{target::gpu};
  program cpu{target::cpu};
  translation for_gpu;
  auto for_cpu_later = std::async(std::launch::async, [&] { return work(cpu, "program.o"); });
  bool const explains_arrays = asked.explains == explanation::arrays;
  if (!asked.is_for_cpu_only && (asked.explains == explanation::none || explains_arrays))
    for_gpu = work(gpu, "program.ptx");
  translation for_cpu = for_cpu_later.get();
  for (auto& [name, entry] : for_cpu.missing)
    for_gpu.missing.try_emplace(name, entry).first->second.places.merge(entry.places);
  if (!for_gpu.missing.empty())
    throw failure{text_of(for_gpu.missing) + "the program needs what ranks cannot have: " +
                  std::to_string(for_gpu.missing.size()) + " names"};

  if (explains_arrays) {
    std::printf("%s", text_of(asked.is_for_cpu_only ? for_cpu.arrays : for_gpu.arrays).c_str());
    return {};
  }
  if (asked.explains != explanation::none) {
    std::printf("%s", explained(for_cpu.sites, asked.explains).c_str());
    return {};
  }
  if (asked.records_allocations) std::printf("%s", explain_json(for_cpu.sites).c_str());
  constants embedded;
  bool const has_gpu_code =
      !asked.is_for_cpu_only &&
      (asked.spans_processes ? installed.has_gpu_processes() : installed.has_gpu());
  std::vector<variant> variants;
  if (has_gpu_code && asked.spans_processes && (asked.embeds_ptx || !installed.has_assembler()))
    throw failure{"--processes needs ptxas and nvlink of the CUDA toolkit, and no --ptx"};
  bool const embeds_ptx = has_gpu_code && (asked.embeds_ptx || !installed.has_assembler());
  if (embeds_ptx && !asked.embeds_ptx)
    std::fprintf(stderr,
                 "quarry-mpicc: warning: ptxas or nvlink of the CUDA toolkit is missing; the GPU's "
                 "driver will compile the program at each start\n");
  if (has_gpu_code && !embeds_ptx) {
    make_cubins(asked, installed, scratch);
    variants = measure(gpu, installed, scratch);
  }
  if (asked.reports)
    std::printf("%s", embeds_ptx ? "the GPU's driver compiles the program: its stack and registers "
                                   "are unknown\n"
                                 : report_of(gpu, variants).c_str());
  for (auto const& runtime : installed.runtimes) {
    auto const cubin_of = [&, &registers = runtime.registers](std::string const& scope) {
      return has_gpu_code && !embeds_ptx ? scratch / ("program" + registers + scope + ".cubin")
                                         : std::string{};
    };
    embedded.add("quarry_mpi_cubin_" + runtime.registers, cubin_of(""));
    embedded.add("quarry_mpi_system_cubin_" + runtime.registers,
                 asked.spans_processes ? "" : cubin_of("_system"));
  }
  embedded.add("quarry_mpi_ptx", embeds_ptx ? scratch / "program.ptx" : "");
  embedded.add("quarry_mpi_runtime_ptx", embeds_ptx ? installed.runtime_ptx : "");
  for (variant const& each : variants)
    embedded.add_numbers("quarry_mpi_stack_" + each.registers,
                         {each.need.bytes, each.need.is_open() ? 1u : 0u});
  auto const add_texts = [&](std::string const& name, std::vector<std::string> const& texts) {
    write_texts(texts, scratch / name);
    embedded.add("quarry_mpi_" + name, scratch / name);
  };
  add_texts("gpu_places", for_gpu.places);
  add_texts("cpu_places", for_cpu.places);
  add_texts("gpu_traced", for_gpu.traced);
  add_texts("cpu_traced", for_cpu.traced);
  embedded.write(scratch / "embedded.s");
  std::string const executable = scratch / "executable";
  std::vector<std::string> words{installed.clang, scratch / "program.o", scratch / "embedded.s",
                                 "-o", executable};
  auto const& runtime =
      asked.spans_processes ? installed.processes_libraries : installed.runtime_libraries;
  words.insert(words.end(), runtime.begin(), runtime.end());
  if (has_gpu_code && asked.spans_processes) {  // the launcher loads NVSHMEM's host library
    auto const folder = std::filesystem::path{installed.nvshmem}.parent_path();
    words.push_back("-Wl,-rpath," + folder.string());
  }
  words.insert(words.end(), installed.libraries.begin(), installed.libraries.end());
  words.insert(words.end(), asked.link.begin(), asked.link.end());
  run(words, asked.is_verbose);
  return executable;
}

}  // namespace quarry::compiler
