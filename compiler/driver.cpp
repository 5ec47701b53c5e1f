// SPDX-License-Identifier: Apache-2.0
// quarry-mpicc: compiles MPI programs in C, like mpicc, into one executable that runs its ranks as
// threads of a GPU or as fibers on the CPU.
#include "failure.hpp"
#include "front_end.hpp"
#include "link.hpp"
#include "program.hpp"

#include <llvm/Config/llvm-config.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

namespace quarry::compiler {
namespace {

namespace fs = std::filesystem;

/// Libraries whose functions the runtime has.
bool is_served(std::string const& library) {
  for (char const* name : {"m", "c", "rt", "pthread", "dl", "mpi", "mpich", "gcc", "gcc_s", "util",
                           "stdc++", "gomp", "omp"})
    if (library == name) return true;
  return false;
}

std::string find_library(std::string const& name, options const& asked) {
  std::string other;
  for (auto const& folder : asked.library_paths) {
    std::string const stem = folder + "/lib" + name;
    if (fs::exists(stem + ".a")) return stem + ".a";
    if (fs::exists(stem + ".so")) other = stem + ".so";
  }
  throw failure{"-l" + name + ": error: " +
                (other.empty() ? "lib" + name + ".a was not found in the folders of -L"
                               : other + " is a shared library") +
                "; quarry-mpicc links static libraries that quarry-mpicc compiled"};
}

int print_information(options const& asked, installation const& parts) {
  for (std::string const& word : asked.information) {
    if (word == "--help") {
      std::fputs(help_text().c_str(), stdout);
    } else if (word == "--version") {
      std::printf("quarry-mpicc %s (Clang and LLVM %s%s)\n", parts.version.c_str(),
                  LLVM_VERSION_STRING, parts.has_gpu() ? ", GPU and CPU" : ", CPU only");
      std::fflush(stdout);
      if (asked.is_verbose) run({parts.clang, "-v"}, false);
    } else if (word.starts_with("-showme:version")) {
      std::printf("quarry-mpicc %s\n", parts.version.c_str());
    } else if (word.starts_with("-showme:link") || word == "-link_info") {
      std::printf("\n");  // quarry-mpicc links, no other compiler can
    } else if (word.starts_with("-showme:incdirs")) {
      std::printf("%s\n", parts.include.c_str());
    } else if (word.starts_with("-showme") || word == "-compile_info") {
      std::printf("-I%s\n", parts.include.c_str());
    } else {
      run({parts.clang, word}, false);
    }
  }
  return 0;
}

std::vector<std::string> sources_of(options const& asked) {
  std::vector<std::string> sources;
  for (input const& each : asked.inputs)
    if (each.kind == input_kind::source) sources.push_back(each.name);
  return sources;
}

/// The names of the objects that the user gets, or would get.
std::vector<std::string> objects_of(options const& asked) {
  std::vector<std::string> objects;
  for (std::string const& source : sources_of(asked)) {
    bool const is_named = asked.wanted == product::object && !asked.output.empty();
    objects.push_back(is_named ? asked.output : fs::path{source}.stem().string() + ".o");
  }
  return objects;
}

int run_clang_alone(options const& asked, installation const& parts) {
  auto words = clang_command(asked, parts);
  for (std::string const& source : sources_of(asked)) {
    if (source == "-") words.insert(words.end(), {"-x", "c"});
    words.push_back(source);
  }
  if (!asked.output.empty()) words.insert(words.end(), {"-o", asked.output});
  if (asked.shows_only) {
    std::printf("%s\n", text_of({words, {}}).c_str());
    return 0;
  }
  return run_all({{words, {}}}, asked.is_verbose)[0];
}

void make_objects(options const& asked, installation const& parts, scratch_folder const& scratch) {
  auto const objects = objects_of(asked);
  auto const files = compile(sources_of(asked), objects, asked, parts, scratch);
  std::vector<command> commands;
  for (auto const& file : files)
    commands.push_back(
        object_command(parts.clang, file.gpu, file.cpu, file.cpu + ".s", file.cpu + ".o"));
  for (int const status : run_all(commands, asked.is_verbose))
    if (status != 0) throw failure{"an object cannot be written"};
  for (std::size_t i = 0; i < files.size(); ++i) scratch.publish(files[i].cpu + ".o", objects[i]);
}

/// The parts of the program in the order of the command line, and what it needs of libraries.
std::vector<compiled> collect(options const& asked, installation const& parts,
                              scratch_folder const& scratch) {
  std::vector<library> libraries;
  std::vector<std::pair<std::size_t, compiled>> objects;
  std::string problems;
  auto const read = [&](std::string const& path, std::size_t order) {
    auto found = read_binary(path);
    if (found.object) objects.emplace_back(order, std::move(*found.object));
    if (!found.archive) return;
    for (std::string const& member : found.archive->foreign)
      problems += member +
                  ": error: another compiler made this object; compile its source with "
                  "quarry-mpicc\n";
    libraries.push_back(std::move(*found.archive));
  };
  for (std::size_t i = 0; i < asked.inputs.size(); ++i) {
    input const& each = asked.inputs[i];
    try {
      if (each.kind == input_kind::binary) read(each.name, i);
      if (each.kind == input_kind::library && !is_served(each.name))
        read(find_library(each.name, asked), i);
    } catch (failure const& problem) {
      problems += problem.text + '\n';
    }
  }
  if (!problems.empty()) throw failure{problems + "some files cannot be linked"};
  auto const files = compile(sources_of(asked), objects_of(asked), asked, parts, scratch);
  std::vector<compiled> result;
  auto source = files.begin();
  auto object = objects.begin();
  for (std::size_t i = 0; i < asked.inputs.size(); ++i) {
    if (asked.inputs[i].kind == input_kind::source) {
      result.push_back({source->source, source->gpu.empty() ? "" : read_file(source->gpu),
                        read_file(source->cpu)});
      ++source;
    } else if (object != objects.end() && object->first == i) {
      result.push_back(std::move(object->second));
      ++object;
    }
  }
  add_members(result, libraries);
  return result;
}

/// Prints the reason of a failure. Lines that have a place stay as they are.
int print_failure(failure const& problem) {
  bool const has_places = problem.text.find(": error: ") != std::string::npos;
  bool is_first = true;
  std::istringstream lines{problem.text};
  for (std::string line; std::getline(lines, line); is_first = false) {
    bool const has_place =
        line.find(": error: ") != std::string::npos || line.find(": note: ") != std::string::npos;
    bool const needs_name = has_places ? !has_place : is_first;
    std::fprintf(stderr, "%s%s\n", needs_name ? "quarry-mpicc: error: " : "", line.c_str());
  }
  return 1;
}

int make_product(options const& asked, installation const& parts, scratch_folder const& scratch) {
  try {
    if (asked.wanted == product::object) {
      make_objects(asked, parts, scratch);
    } else {
      auto const program_parts = collect(asked, parts, scratch);
      std::string const executable = link_program(program_parts, asked, parts, scratch);
      if (!executable.empty())
        scratch.publish(executable, asked.output.empty() ? "a.out" : asked.output);
    }
    return 0;
  } catch (failure const& problem) {
    return print_failure(problem);
  } catch (std::exception const& problem) {
    return print_failure({problem.what()});
  }
}

int drive(int argc, char** argv) {
  try {
    options const asked = parse_options(argc, argv);
    installation const parts = find_installation();
    if (asked.wanted == product::information) return print_information(asked, parts);
    if (asked.wanted == product::front_end || asked.shows_only)
      return run_clang_alone(asked, parts);
    scratch_folder const scratch;
    return run_and_clean(scratch, asked.keeps_scratch,
                         [&] { return make_product(asked, parts, scratch); });
  } catch (failure const& problem) {
    return print_failure(problem);
  } catch (std::exception const& problem) {
    return print_failure({problem.what()});
  }
}

}  // namespace
}  // namespace quarry::compiler

int main(int argc, char** argv) { return quarry::compiler::drive(argc, argv); }
