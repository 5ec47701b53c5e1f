// SPDX-License-Identifier: Apache-2.0
// quarry-mpicc: compiles MPI programs in C, like mpicc, into one executable that runs its ranks as
// threads of a GPU or as fibers on the CPU.
#include "back_end.hpp"
#include "c_prototypes.hpp"
#include "c_variables.hpp"
#include "lower.hpp"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Object/Archive.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/SourceMgr.h>

#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace quarry::compiler {
namespace {

namespace fs = std::filesystem;
using namespace llvm;

/// An error that the user sees without a stack trace.
struct failure {
  std::string text;
};

struct options {
  bool compiles_only = false;  // -c
  bool shows_commands = false;
  std::string output;
  unsigned level = 2;
  std::vector<std::string> front_end;  // options for Clang
  std::vector<std::string> inputs;
  std::vector<std::string> library_paths;
  std::string gpu = "sm_90";
};

/// Where the parts of Quarry and the CUDA toolkit are. CMake writes the file.
struct installation {
  std::string clang, ptxas, nvlink, math, include;
  std::string functions;               // the archive that defines all functions of the runtime
  std::vector<std::string> runtimes;   // cubins of the runtime, by ascending number of registers
  std::vector<std::string> libraries;  // what the executable links
};

void run(std::vector<std::string> const& command, bool shows) {
  if (shows) {
    for (auto const& word : command) std::fprintf(stderr, "%s ", word.c_str());
    std::fprintf(stderr, "\n");
  }
  std::vector<char*> words;
  for (auto const& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    execvp(words[0], words.data());
    std::fprintf(stderr, "quarry-mpicc: %s was not found\n", words[0]);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw failure{""};  // the program has said why
}

/// Runs all commands at once.
void run_together(std::vector<std::vector<std::string>> const& commands, bool shows) {
  std::vector<pid_t> children;
  for (auto const& command : commands) {
    pid_t const child = fork();
    if (child == 0) {
      try {
        run(command, shows);
      } catch (failure const&) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  bool failed = false;
  for (pid_t const child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status != 0;
  }
  if (failed) throw failure{""};
}

class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (fs::temp_directory_path() / "quarry-mpicc-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw failure{"cannot create a folder in " + fs::temp_directory_path().string()};
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    if (std::getenv("QUARRY_MPICC_KEEP") == nullptr) fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string const& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

installation find_installation() {
  fs::path const self = fs::read_symlink("/proc/self/exe");
  fs::path const file = self.parent_path() / "quarry-mpicc.cfg";
  std::ifstream stream{file};
  if (!stream) throw failure{file.string() + " is missing: it says where the runtime is"};
  installation result;
  for (std::string line; std::getline(stream, line);) {
    auto const space = line.find(' ');
    if (space == std::string::npos) continue;
    std::string const key = line.substr(0, space);
    std::string value = line.substr(space + 1);
    if (key == "clang") result.clang = value;
    if (key == "ptxas") result.ptxas = value;
    if (key == "nvlink") result.nvlink = value;
    if (key == "math") result.math = value;
    if (key == "include") result.include = value;
    if (key == "functions") result.functions = value;
    if (key == "runtime") result.runtimes.push_back(value);
    if (key == "library") result.libraries.push_back(value);
  }
  return result;
}

options parse(int argc, char** argv) {
  options result;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    auto const next = [&] {
      if (i + 1 == argc) throw failure{"option " + word + " needs a value"};
      return std::string{argv[++i]};
    };
    if (word == "-c") {
      result.compiles_only = true;
    } else if (word == "-o") {
      result.output = next();
    } else if (word == "-v" || word == "-###") {
      result.shows_commands = true;
    } else if (word.starts_with("-O")) {
      std::string const level = word.substr(2);
      result.level = level.empty()                       ? 1
                     : level == "fast" || level[0] > '3' ? 3
                     : level == "s" || level == "z" || level == "g"
                         ? 1
                         : static_cast<unsigned>(level[0] - '0');
    } else if (word == "-I" || word == "-D" || word == "-U" || word == "-include" ||
               word == "-isystem") {
      result.front_end.push_back(word);
      result.front_end.push_back(next());
    } else if (word == "-L") {
      result.library_paths.push_back(next());
    } else if (word.starts_with("-L")) {
      result.library_paths.push_back(word.substr(2));
    } else if (word.starts_with("-l")) {
      result.inputs.push_back(word);
    } else if (word.starts_with("--gpu=")) {
      result.gpu = word.substr(6);
    } else if (word.starts_with("-") && word != "-") {
      result.front_end.push_back(word);
    } else {
      result.inputs.push_back(word);
    }
  }
  if (result.inputs.empty()) throw failure{"no input files"};
  return result;
}

constexpr char const* gpu_section = ".quarry.gpu";
constexpr char const* cpu_section = ".quarry.cpu";

/// The bitcode of one source file for both machines.
struct compiled {
  std::string name;
  std::string gpu, cpu;  // bitcode
};

std::string read_file(std::string const& path) {
  std::ifstream stream{path, std::ios::binary};
  if (!stream) throw failure{path + ": cannot be read"};
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Has Clang translate `source` to bitcode for both machines.
compiled compile(std::string const& source, options const& asked, installation const& parts,
                 scratch_folder const& scratch) {
  std::vector<std::string> common{parts.clang,
                                  "-O1",
                                  "-Xclang",
                                  "-disable-llvm-passes",
                                  "-g",
                                  "-emit-llvm",
                                  "-c",
                                  source,
                                  "-I" + parts.include,
                                  "-D_GNU_SOURCE",
                                  "-fno-builtin-malloc",
                                  "-fno-builtin-printf",
                                  "-Wno-error=implicit-function-declaration",
                                  "-Wno-error=implicit-int",
                                  "-Wno-error=int-conversion",
                                  "-Wno-error=incompatible-function-pointer-types",
                                  "-fmath-errno",
                                  "-D_FORTIFY_SOURCE=0"};
  common.insert(common.end(), asked.front_end.begin(), asked.front_end.end());
  auto gpu = common;
  gpu.insert(gpu.end(), {"--target=nvptx64-nvidia-cuda", "-march=" + asked.gpu, "-nogpulib", "-w",
                         "-isystem", "/usr/include/x86_64-linux-gnu", "-isystem", "/usr/include",
                         "-D__x86_64__", "-D__LP64__", "-o", scratch / "gpu.bc"});
  auto cpu = common;
  cpu.insert(cpu.end(), {"-fPIC", "-o", scratch / "cpu.bc"});
  run_together({cpu, gpu}, asked.shows_commands);
  return {source, read_file(scratch / "gpu.bc"), read_file(scratch / "cpu.bc")};
}

/// Writes an object file that holds the bitcode for both machines.
void write_object(std::string const& path, options const& asked, installation const& parts,
                  scratch_folder const& scratch) {
  std::string const assembly = scratch / "object.s";
  std::ofstream{assembly} << "\t.section " << gpu_section << ",\"\",@progbits\n\t.incbin \""
                          << scratch / "gpu.bc" << "\"\n"
                          << "\t.section " << cpu_section << ",\"\",@progbits\n\t.incbin \""
                          << scratch / "cpu.bc" << "\"\n"
                          << "\t.section .note.GNU-stack,\"\",@progbits\n";
  run({parts.clang, "-c", assembly, "-o", path}, asked.shows_commands);
}

std::optional<compiled> read_object(MemoryBufferRef buffer) {
  auto object = object::ObjectFile::createObjectFile(buffer);
  if (!object) {
    consumeError(object.takeError());
    return std::nullopt;
  }
  compiled result{buffer.getBufferIdentifier().str(), {}, {}};
  for (auto const& section : (*object)->sections()) {
    auto name = section.getName();
    auto contents = section.getContents();
    if (!name || !contents) continue;
    if (*name == gpu_section) result.gpu = contents->str();
    if (*name == cpu_section) result.cpu = contents->str();
  }
  if (result.gpu.empty() || result.cpu.empty()) return std::nullopt;
  return result;
}

std::unique_ptr<Module> parse_module(std::string const& bitcode, std::string const& name,
                                     LLVMContext& context) {
  auto module = parseBitcodeFile(MemoryBufferRef{bitcode, name}, context);
  if (!module) throw failure{name + ": " + toString(module.takeError())};
  return std::move(*module);
}

/// The program for one machine.
class program {
 public:
  explicit program(target machine) : machine_{machine} {}

  void add(compiled const& part) {
    auto module = parse_module(machine_ == target::gpu ? part.gpu : part.cpu, part.name, context_);
    if (whole_ == nullptr) {
      whole_ = std::move(module);
    } else if (Linker::linkModules(*whole_, std::move(module))) {
      throw failure{part.name + " cannot be linked"};
    }
  }

  /// Whether the program calls a function or uses a variable that only `part` defines.
  bool needs(compiled const& part) {
    LLVMContext context;
    auto const module =
        parse_module(machine_ == target::gpu ? part.gpu : part.cpu, part.name, context);
    for (GlobalValue const& value : module->global_values()) {
      if (value.isDeclaration() || value.hasLocalLinkage()) continue;
      auto const* const known = whole_->getNamedValue(value.getName());
      if (known != nullptr && known->isDeclaration()) return true;
    }
    return false;
  }

  Module& module() { return *whole_; }
  std::vector<std::string> places;

 private:
  target machine_;
  LLVMContext context_;
  std::unique_ptr<Module> whole_;
};

/// The names of the functions and variables that the runtime defines.
std::set<std::string> runtime_functions(std::string const& archive) {
  std::set<std::string> names;
  auto buffer = MemoryBuffer::getFile(archive);
  if (!buffer) throw failure{archive + ": " + buffer.getError().message()};
  auto parsed = object::Archive::create(**buffer);
  if (!parsed) throw failure{archive + ": " + toString(parsed.takeError())};
  for (auto const& symbol : (*parsed)->symbols()) names.insert(symbol.getName().str());
  return names;
}

/// Everything between the joined bitcode and code, for one machine.
std::vector<missing_function> translate(program& whole, target machine, options const& asked,
                                        installation const& parts,
                                        std::set<std::string> const& known,
                                        std::string const& path) {
  Module& module = whole.module();
  auto const generator = machine_for(machine, asked.gpu);
  module.setTargetTriple(generator->getTargetTriple().str());
  if (!rename_main(module)) throw failure{"the program has no function main"};
  allow_early_end(module);
  correct_prototypes(module);
  replace_c_variables(module);
  auto missing = connect_to_runtime(module, machine, known);
  if (!missing.empty()) return missing;
  whole.places = record_call_places(module, machine);
  privatize_globals(module, machine);
  for (GlobalValue& value : module.global_values()) {
    bool const is_called_by_runtime = value.getName().starts_with("quarry_mpi_");
    if (!value.isDeclaration() && !is_called_by_runtime && !value.hasAppendingLinkage() &&
        !isa<GlobalAlias>(value))
      value.setLinkage(GlobalValue::InternalLinkage);
  }
  if (machine == target::gpu && !parts.math.empty()) {
    std::string const error = link_math(module, parts.math);
    if (!error.empty()) throw failure{error};
  }
  optimise(module, *generator, asked.level);
  std::string const error = write_code(module, *generator, machine, path);
  if (!error.empty()) throw failure{error};
  return {};
}

void report(std::vector<missing_function> const& missing) {
  std::string text;
  for (auto const& function : missing) {
    for (auto const& place :
         function.places.empty() ? std::vector<std::string>{"(unknown place)"} : function.places)
      text += place + ": error: " + function.name + " is not supported\n";
  }
  throw failure{text + std::to_string(missing.size()) + " functions are not supported"};
}

void write_places(std::vector<std::string> const& places, std::string const& path) {
  std::ofstream file{path, std::ios::binary};
  for (auto const& place : places) file << place << '\0';
}

void link(std::vector<compiled> const& files, std::vector<std::string> const& archives,
          options const& asked, installation const& parts, scratch_folder const& scratch) {
  program gpu{target::gpu};
  program cpu{target::cpu};
  for (auto const& file : files) {
    gpu.add(file);
    cpu.add(file);
  }
  for (auto const& path : archives) {
    auto buffer = MemoryBuffer::getFile(path);
    if (!buffer) throw failure{path + ": " + buffer.getError().message()};
    auto archive = object::Archive::create(**buffer);
    if (!archive) throw failure{path + ": " + toString(archive.takeError())};
    std::vector<compiled> members;
    Error problem = Error::success();
    for (auto const& child : (*archive)->children(problem)) {
      auto contents = child.getMemoryBufferRef();
      if (!contents) throw failure{path + ": " + toString(contents.takeError())};
      auto member = read_object(*contents);
      if (member) members.push_back(std::move(*member));
    }
    if (problem) throw failure{path + ": " + toString(std::move(problem))};
    for (bool found = true; found;) {
      found = false;
      for (auto member = members.begin(); member != members.end();) {
        if (!cpu.needs(*member)) {
          ++member;
          continue;
        }
        gpu.add(*member);
        cpu.add(*member);
        member = members.erase(member);
        found = true;
      }
    }
  }
  auto const known = runtime_functions(parts.functions);
  auto missing = translate(gpu, target::gpu, asked, parts, known, scratch / "program.ptx");
  if (missing.empty())
    missing = translate(cpu, target::cpu, asked, parts, known, scratch / "program.o");
  if (!missing.empty()) report(missing);
  write_places(gpu.places, scratch / "gpu.places");
  write_places(cpu.places, scratch / "cpu.places");
  std::vector<std::vector<std::string>> assemblies;
  std::vector<std::vector<std::string>> links;
  std::string blobs;
  blobs += "\t.section .rodata\n";
  auto const blob = [&](std::string const& name, std::string const& path) {
    blobs += "\t.globl " + name + "\n\t.balign 16\n" + name + ":\n\t.incbin \"" + path +
             "\"\n\t.globl " + name + "_end\n" + name + "_end:\n\t.byte 0\n";
  };
  std::vector<int> const registers{32, 64, 128, 255};
  for (std::size_t i = 0; i < parts.runtimes.size(); ++i) {
    std::string const count = std::to_string(registers[i]);
    assemblies.push_back({parts.ptxas, "-c", "-arch=" + asked.gpu, "-maxrregcount=" + count,
                          scratch / "program.ptx", "-o", scratch / ("program" + count + ".o")});
    links.push_back({parts.nvlink, "-m64", "--arch=" + asked.gpu,
                     scratch / ("program" + count + ".o"), parts.runtimes[i], "-o",
                     scratch / ("program" + count + ".cubin")});
    blob("quarry_mpi_cubin_" + count, scratch / ("program" + count + ".cubin"));
  }
  run_together(assemblies, asked.shows_commands);
  run_together(links, asked.shows_commands);
  blob("quarry_mpi_gpu_places", scratch / "gpu.places");
  blob("quarry_mpi_cpu_places", scratch / "cpu.places");
  std::ofstream{scratch / "blobs.s"} << blobs << "\t.section .note.GNU-stack,\"\",@progbits\n";
  std::vector<std::string> command{parts.clang, scratch / "program.o", scratch / "blobs.s", "-o",
                                   asked.output.empty() ? "a.out" : asked.output};
  command.insert(command.end(), parts.libraries.begin(), parts.libraries.end());
  run(command, asked.shows_commands);
}

std::string find_library(std::string const& name, options const& asked) {
  for (auto const& folder : asked.library_paths) {
    std::string const path = folder + "/lib" + name + ".a";
    if (fs::exists(path)) return path;
  }
  return {};
}

int compile_and_link(int argc, char** argv) {
  options const asked = parse(argc, argv);
  installation const parts = find_installation();
  scratch_folder const scratch;
  std::vector<compiled> files;
  std::vector<std::string> archives;
  for (auto const& input : asked.inputs) {
    fs::path const path{input};
    if (input.starts_with("-l")) {
      std::string const name = input.substr(2);
      if (name == "m" || name == "c" || name == "rt" || name == "pthread" || name == "mpi")
        continue;
      std::string const library = find_library(name, asked);
      if (library.empty())
        throw failure{
            "lib" + name +
            ".a was not found; quarry-mpicc links static libraries that quarry-mpicc compiled"};
      archives.push_back(library);
    } else if (path.extension() == ".c") {
      files.push_back(compile(input, asked, parts, scratch));
      if (asked.compiles_only) {
        if (!asked.output.empty() && asked.inputs.size() > 1)
          throw failure{"-o with -c allows one source file"};
        write_object(asked.output.empty() ? path.stem().string() + ".o" : asked.output, asked,
                     parts, scratch);
      }
    } else if (path.extension() == ".o") {
      auto buffer = MemoryBuffer::getFile(input);
      if (!buffer) throw failure{input + ": " + buffer.getError().message()};
      auto object = read_object(**buffer);
      if (!object) throw failure{input + " was not compiled by quarry-mpicc"};
      files.push_back(std::move(*object));
    } else if (path.extension() == ".a") {
      archives.push_back(input);
    } else {
      throw failure{input + ": only C is supported (.c, .o, .a)"};
    }
  }
  if (!asked.compiles_only) link(files, archives, asked, parts, scratch);
  return 0;
}

}  // namespace
}  // namespace quarry::compiler

int main(int argc, char** argv) {
  try {
    return quarry::compiler::compile_and_link(argc, argv);
  } catch (quarry::compiler::failure const& problem) {
    if (!problem.text.empty()) std::fprintf(stderr, "quarry-mpicc: %s\n", problem.text.c_str());
    return 1;
  }
}
