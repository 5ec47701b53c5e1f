// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "failure.hpp"

#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/StringSaver.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

namespace quarry::compiler {
namespace {

using words = std::set<std::string, std::less<>>;

/// Options that take the next word, or the rest of their own, as the value.
words const with_value{
    "-I",         "-D",       "-U",      "-include",  "-isystem",       "-iquote",
    "-idirafter", "-imacros", "-Xclang", "-isysroot", "-Xpreprocessor", "-iprefix"};
words const link_with_value{"-Xlinker", "-T", "-u", "-z"};

/// Options without meaning for ranks: the code of the CPU is always position-independent, the code
/// generator sees the whole program, and pragmas of OpenMP have no effect.
constexpr std::array ignored_prefixes{"-pthread",   "-fopenmp",
                                      "-pipe",      "-rdynamic",
                                      "-march=",    "-mtune=",
                                      "-mcpu=",     "-m64",
                                      "-flto",      "-fno-lto",
                                      "-fPI",       "-fpi",
                                      "-fno-PI",    "-fno-pi",
                                      "-pie",       "-no-pie",
                                      "-static",    "-fstack-protector",
                                      "-fuse-ld",   "-export-dynamic",
                                      "-fopt-info", "-mavx",
                                      "-msse",      "-mfma"};

struct refusal {
  char const* prefix;
  char const* reason;
};
constexpr refusal refusals[] = {
    {"-shared", "quarry-mpicc makes executables and objects, no shared libraries; use -c and ar"},
    {"-S", "an object has code for two machines; use -c, or -save-temps to see the PTX"},
    {"-emit-llvm", "use -c: objects hold LLVM's bitcode"},
    {"-fsanitize", "sanitizers cannot watch ranks"},
    {"--coverage", "ranks cannot write coverage data"},
    {"-fprofile", "ranks cannot write profiles"},
    {"-pg", "ranks cannot write profiles"},
    {"-m32", "pointers have 64 bits on a GPU"},
    {"--target", "quarry-mpicc chooses the targets; --gpu=sm_90 names the GPU's architecture"},
    {"-target", "quarry-mpicc chooses the targets; --gpu=sm_90 names the GPU's architecture"}};

std::map<std::string, char const*, std::less<>> const foreign_languages{
    {".cpp", "C++"},      {".cc", "C++"},       {".cxx", "C++"},     {".C", "C++"},
    {".c++", "C++"},      {".cu", "CUDA"},      {".f", "Fortran"},   {".F", "Fortran"},
    {".f90", "Fortran"},  {".F90", "Fortran"},  {".f95", "Fortran"}, {".f03", "Fortran"},
    {".f08", "Fortran"},  {".for", "Fortran"},  {".s", "assembly"},  {".S", "assembly"},
    {".asm", "assembly"}, {".m", "Objective-C"}};

unsigned level_of(std::string const& word) {
  std::string const level = word.substr(2);
  if (level.empty() || level == "s" || level == "z" || level == "g") return 1;
  if (level == "fast" || level[0] > '3') return 3;
  return level[0] < '0' ? 1 : static_cast<unsigned>(level[0] - '0');
}

bool starts_with_any(std::string const& word, auto const& prefixes) {
  for (char const* prefix : prefixes)
    if (word.starts_with(prefix)) return true;
  return false;
}

class parser {
 public:
  explicit parser(std::vector<std::string> arguments) : arguments_{std::move(arguments)} {}

  options parse() {
    while (next_ < arguments_.size()) read(arguments_[next_++]);
    if (!problems_.empty()) throw failure{problems_};
    if (result_.wanted != product::information && result_.inputs.empty()) {
      if (!result_.is_verbose) throw failure{"no input files; quarry-mpicc --help shows the usage"};
      result_.wanted = product::information;
      result_.information.push_back("--version");
    }
    unsigned sources = 0;
    for (input const& each : result_.inputs) {
      sources += each.kind == input_kind::source;
      if (each.name == "-" && result_.wanted != product::front_end)
        throw failure{"a program on the standard input is supported with -E only"};
    }
    if (result_.wanted == product::object && !result_.output.empty() && sources > 1)
      throw failure{"-o with -c allows one source file; " + std::to_string(sources) + " are given"};
    return std::move(result_);
  }

 private:
  void problem(std::string const& text) {
    if (!problems_.empty()) problems_ += '\n';
    problems_ += text;
  }

  std::string value(std::string const& option) {
    if (next_ < arguments_.size()) return arguments_[next_++];
    problem("option " + option + " needs a value");
    return {};
  }

  void read(std::string const& word) {
    if (word.size() > 1 && word[0] == '-') {
      if (!read_own(word) && !read_dependency(word) && !read_link(word)) read_clang(word);
    } else {
      read_input(word);
    }
  }

  /// Options that the driver itself serves.
  bool read_own(std::string const& word) {
    auto& asked = result_;
    if (word == "-c") {
      if (asked.wanted == product::executable) asked.wanted = product::object;
    } else if (word == "-E" || word == "-M" || word == "-MM" || word == "-fsyntax-only") {
      asked.wanted = product::front_end;
      asked.cpu_front_end.push_back(word);
    } else if (word.starts_with("-o")) {
      asked.output = word == "-o" ? value(word) : word.substr(2);
    } else if (word == "-v" || word == "-###") {
      asked.is_verbose = true;
    } else if (word == "--show" || word == "-show") {
      asked.shows_only = true;
    } else if (word == "--report") {
      asked.reports = true;
    } else if (word == "--record-allocations") {
      asked.records_allocations = true;
    } else if (word == "--assume-collective") {
      asked.assumes_collective = true;
    } else if (word == "--meet-at-safe") {
      asked.meets = meeting_place::sync_safe;
    } else if (word == "--meet-at-collective") {
      asked.meets = meeting_place::collective;
    } else if (word == "--separate-arms") {
      asked.merges_arms = false;
    } else if (word == "--explain" || word == "--explain=text") {
      asked.explains = explanation::text;
    } else if (word == "--explain=json") {
      asked.explains = explanation::json;
    } else if (word == "--explain=source") {
      asked.explains = explanation::source;
    } else if (word == "--explain=arrays") {
      asked.explains = explanation::arrays;
    } else if (word == "--contiguous-arrays") {
      asked.arrays = array_form::contiguous;
    } else if (word == "--check-arrays") {
      asked.arrays = array_form::checked;
      asked.is_for_cpu_only = true;
    } else if (word == "--stack-frames") {
      asked.moves_frames = false;
    } else if (word == "--check") {
      asked.checks_calls = true;
    } else if (word == "--trace") {
      asked.traces_calls = true;
    } else if (word == "--check-divisors") {
      asked.checks_divisors = true;
    } else if (word == "--cpu-only") {
      asked.is_for_cpu_only = true;
    } else if (word == "--processes") {
      asked.spans_processes = true;
    } else if (word == "--ptx") {
      asked.embeds_ptx = true;
    } else if (word.starts_with("-save-temps") || word.starts_with("--save-temps")) {
      asked.keeps_scratch = true;
    } else if (word.starts_with("--gpu=")) {
      asked.gpu = word.substr(6);
    } else if (word == "--help" || word == "--version" || word.starts_with("-dump") ||
               word.starts_with("-print-") || word.starts_with("--print-") ||
               word.starts_with("-showme") || word == "-compile_info" || word == "-link_info") {
      asked.wanted = product::information;
      asked.information.push_back(word);
    } else if (word.starts_with("-O")) {
      asked.level = level_of(word);
      if (word == "-Ofast") asked.front_end.push_back("-ffast-math");
    } else {
      return false;
    }
    return true;
  }

  bool read_dependency(std::string const& word) {
    if (!word.starts_with("-M")) return false;
    if (word == "-MD" || word == "-MMD") {
      result_.writes_dependencies = true;
      result_.cpu_front_end.push_back(word);
    } else if (word.starts_with("-MF") || word.starts_with("-MT") || word.starts_with("-MQ")) {
      (word[2] == 'F' ? result_.names_dependency_file : result_.names_dependency_target) = true;
      result_.cpu_front_end.push_back(word.substr(0, 3));
      result_.cpu_front_end.push_back(word.size() > 3 ? word.substr(3) : value(word));
    } else {
      result_.cpu_front_end.push_back(word);  // -MP, -MG
    }
    return true;
  }

  bool read_link(std::string const& word) {
    if (word.starts_with("-L")) {
      result_.library_paths.push_back(word == "-L" ? value(word) : word.substr(2));
    } else if (word.starts_with("-l")) {
      result_.inputs.push_back({input_kind::library, word == "-l" ? value(word) : word.substr(2)});
    } else if (link_with_value.contains(word)) {
      result_.link.push_back(word);
      result_.link.push_back(value(word));
    } else if (word.starts_with("-Wl,")) {
      // Libraries are searched as one group, so options on groups of libraries have no effect.
      bool const is_about_libraries =
          starts_with_any(word, std::array{"-Wl,--start-group", "-Wl,--end-group", "-Wl,-B",
                                           "-Wl,--whole-archive", "-Wl,--no-whole-archive"});
      if (!is_about_libraries) result_.link.push_back(word);
    } else if (word == "-s") {
      result_.link.push_back(word);
    } else {
      return false;
    }
    return true;
  }

  void read_clang(std::string const& word) {
    for (refusal const& each : refusals)
      if (word.starts_with(each.prefix)) return problem(word + " is not supported: " + each.reason);
    if (starts_with_any(word, ignored_prefixes)) return;
    if (word == "-x") {
      std::string const language = value(word);
      if (language != "c" && language != "cpp-output" && language != "none")
        problem("-x " + language + " is not supported: quarry-mpicc compiles C");
      is_forced_source_ = language != "none";
    } else if (with_value.contains(word)) {
      result_.front_end.push_back(word);
      result_.front_end.push_back(value(word));
    } else if (word.starts_with("-W") || word.starts_with("-w") || word.starts_with("-pedantic") ||
               word.starts_with("-fdiagnostics") || word == "-P" || word.starts_with("-dM") ||
               word == "-C") {
      result_.cpu_front_end.push_back(word);  // the translation for the GPU gives no warnings
    } else {
      result_.front_end.push_back(word);
    }
  }

  void read_input(std::string const& name) {
    std::string const extension = std::filesystem::path{name}.extension().string();
    if (is_forced_source_ || extension == ".c" || extension == ".i") {
      result_.inputs.push_back({input_kind::source, name});
    } else if (name == "-") {
      result_.inputs.push_back({input_kind::source, name});
    } else if (auto const found = foreign_languages.find(extension);
               found != foreign_languages.end()) {
      problem(name + ":1: error: " + found->second + " is not supported: quarry-mpicc compiles C");
    } else if (extension == ".so" || name.find(".so.") != std::string::npos) {
      problem(name +
              ": error: a shared library is not supported: its code cannot run on a GPU; "
              "compile its sources with quarry-mpicc into a static library");
    } else {
      result_.inputs.push_back({input_kind::binary, name});
    }
  }

  std::vector<std::string> arguments_;
  std::size_t next_ = 0;
  bool is_forced_source_ = false;  // -x c
  options result_;
  std::string problems_;
};

}  // namespace

options parse_options(int argc, char** argv) {
  llvm::BumpPtrAllocator memory;
  llvm::SmallVector<char const*> arguments{argv + 1, argv + argc};
  llvm::cl::ExpansionContext expansion{memory, llvm::cl::TokenizeGNUCommandLine};
  if (auto error = expansion.expandResponseFiles(arguments))
    throw failure{llvm::toString(std::move(error))};
  return parser{{arguments.begin(), arguments.end()}}.parse();
}

std::string help_text() {
  return "usage: quarry-mpicc [options] files...\n"
         "Compiles MPI programs in C into one executable, whose ranks run as threads of a GPU or\n"
         "as fibers on the CPU. quarry-mpirun starts it. The files are C sources, objects and\n"
         "static libraries that quarry-mpicc compiled.\n"
         "\n"
         "  -c                 make an object of each source\n"
         "  -o FILE            the name of the output\n"
         "  -E, -M, -MM        print what the preprocessor makes, or the dependencies\n"
         "  -I -D -U -include -std= -f... -W... -MD -MF -MT  as Clang has them\n"
         "  -O0 ... -O3        the level of optimisation (-O2 if none is given)\n"
         "  -l NAME, -L DIR    link the static library libNAME.a, searched in DIR\n"
         "  --gpu=sm_90        the architecture of the GPU\n"
         "  --cpu-only         make code for the CPU alone\n"
         "  --processes        link for quarry-mpirun --processes: ranks of several processes\n"
         "  --ptx              leave the machine code to the GPU's driver, at each start: for "
         "GPUs\n"
         "                     that are newer, and the default if the CUDA toolkit lacks ptxas\n"
         "  --stack-frames     on the CPU, keep variable-length arrays and large local variables "
         "on\n"
         "                     the stack of a rank, which has 1 MiB; they are in the heap "
         "otherwise\n"
         "  --check            look for faults in the use of MPI while the program runs: "
         "collective\n"
         "                     operations that differ, buffers in use, what is not freed\n"
         "  --check-divisors   on the CPU, too, compare divisors of integers with 0; a report "
         "names the\n"
         "                     place then\n"
         "  --trace            let quarry-mpirun --trace record calls of MPI, malloc and free\n"
         "  --report           print registers and stack of the program on a GPU\n"
         "  --explain          print which allocations all ranks call, with one size, and why not\n"
         "  --explain=json     the same, a line of JSON for each\n"
         "  --explain=source   the same as comments in the source\n"
         "  --explain=arrays   print which private arrays are interleaved on a GPU, and why not\n"
         "  --contiguous-arrays  interleave no arrays\n"
         "  --show             print Clang's commands and run none\n"
         "  -v                 print each command\n"
         "  -save-temps        keep the temporary files and print their folder\n"
         "  --version, --help\n";
}

}  // namespace quarry::compiler
