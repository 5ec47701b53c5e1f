// SPDX-License-Identifier: Apache-2.0
#include "installation.hpp"

#include "failure.hpp"

#include <filesystem>
#include <fstream>
#include <map>

namespace quarry::compiler {
namespace {

namespace fs = std::filesystem;

void check_file(std::string const& what, std::string const& path, fs::path const& file) {
  if (path.empty() || fs::exists(path)) return;
  throw failure{what + " is missing: " + path + ", named in " + file.string()};
}

}  // namespace

installation find_installation() {
  fs::path const folder = fs::read_symlink("/proc/self/exe").parent_path();
  fs::path const file = folder / "quarry-mpicc.cfg";
  std::ifstream stream{file};
  if (!stream) throw failure{file.string() + " is missing: it says where the runtime is"};
  installation result;
  std::map<std::string, std::string> of_processes;
  for (std::string line; std::getline(stream, line);) {
    auto const space = line.find(' ');
    if (space == std::string::npos) continue;
    std::string const key = line.substr(0, space);
    std::string value = line.substr(space + 1);
    if (value.starts_with('@'))
      value = fs::path{folder.string() + value.substr(1)}.lexically_normal().string();
    if (key == "nvshmem" && fs::exists(value)) result.nvshmem = value;
    if (key.starts_with("processes") || key.starts_with("transport")) of_processes[key] = value;
    if (key == "version") result.version = value;
    if (key == "clang") result.clang = value;
    if (key == "plugin") result.plugin = value;
    if (key == "ptxas" && fs::exists(value)) result.ptxas = value;
    if (key == "nvlink" && fs::exists(value)) result.nvlink = value;
    if (key == "ptx") result.runtime_ptx = value;
    if (key == "math") result.math = value;
    if (key == "complex") result.complex = value;
    if (key == "include") result.include = value;
    if (key == "functions") result.functions = value;
    if (key == "types") result.function_types = value;
    if (key == "runtime_library") result.runtime_libraries.push_back(value);
    if (key == "processes_library") result.processes_libraries.push_back(value);
    if (key == "library") result.libraries.push_back(value);
    if (key.starts_with("runtime_system") && !result.runtimes.empty())
      result.runtimes.back().system_cubin = value;  // follows the line of the other
    else if (key.starts_with("runtime") && key != "runtime_library")
      result.runtimes.push_back({key.substr(7), value, {}, {}, {}});
  }
  for (auto& runtime : result.runtimes) {
    runtime.processes_cubin = of_processes["processes" + runtime.registers];
    runtime.transport_cubin = of_processes["transport" + runtime.registers];
  }
  check_file("Clang 19", result.clang, file);
  check_file("the runtime's archive", result.functions, file);
  check_file("the GPU's runtime", result.runtime_ptx, file);
  check_file("the functions of <complex.h>", result.complex, file);
  check_file("libdevice of the CUDA toolkit", result.math, file);
  for (auto const& runtime : result.runtimes) {
    check_file("the GPU's runtime", runtime.cubin, file);
    check_file("the runtime for several GPUs", runtime.system_cubin, file);
  }
  return result;
}

}  // namespace quarry::compiler
