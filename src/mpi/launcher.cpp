// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include "calls.hpp"
#include "fault_report.hpp"
#include "host_calls.hpp"
#include "message_parts.hpp"
#include "process_group.hpp"
#include "short_run.hpp"
#include "signal_watch.hpp"
#include "size_text.hpp"
#include "wait_graph.hpp"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Nobody reads the output if there is an error.
void write_text(int file, std::string_view text) {
  (void)write_all(file, text.data(), text.size());
}

/// Where the ranks run, as the user wants it: "cpu", "gpu", or empty. Throws bad_argument.
std::string wanted_device() {
  char const* const text = std::getenv("QUARRY_MPI_DEVICE");
  std::string wanted = text == nullptr ? "" : text;
  if (wanted.empty() || wanted == "cpu" || wanted == "gpu") return wanted;
  throw bad_argument{"--device " + wanted + ": must be cpu or gpu"};
}

/// Refuses options that only the CPU has: a program that runs on a GPU would not do what they ask.
void check_gpu_options(launch_options const& asked) {
  if (asked.seed != 0)
    throw bad_argument{
        "--seed " + std::to_string(asked.seed) +
        ": the ranks run on a GPU, where no seed chooses their order; add --device cpu"};
  if (asked.threads != 1)
    throw bad_argument{"--threads " + std::to_string(asked.threads) +
                       ": the ranks run on a GPU; add --device cpu"};
}

/// Refuses options that only a GPU has. `reason`: why the ranks run on the CPU.
void check_cpu_options(launch_options const& asked, char const* reason) {
  std::string const end = std::string{": the ranks run on the CPU, "} + reason;
  if (asked.gpus > 1) throw bad_argument{"--gpus " + std::to_string(asked.gpus) + end};
  if (asked.ranks_per_warp != 0)
    throw bad_argument{"--ranks-per-warp " + std::to_string(asked.ranks_per_warp) + end};
  if (asked.registers != 0)
    throw bad_argument{"--registers " + std::to_string(asked.registers) + end};
}

/// The value of an option, which quarry-mpirun passes in the environment. Throws bad_argument if it
/// is no number of at most `most`.
std::uint64_t number(char const* variable, char const* option, std::uint64_t fallback,
                     std::uint64_t most) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return fallback;
  std::uint64_t value = 0;
  char const* const end = text + std::strlen(text);
  auto const [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value > most)
    throw bad_argument{std::string{option} + ' ' + text + ": must be a number of at most " +
                       std::to_string(most)};
  return value;
}

/// The same for a size in bytes.
bytes size(char const* variable, char const* option, bytes most) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return 0;
  auto const found = parse_size(text);
  if (!found || *found > most)
    throw bad_argument{std::string{option} + ' ' + text + ": must be a size of at most " +
                       text_of_size(most) + ", as 4096, 64K or 1.5M"};
  return *found;
}

malloc_kind read_malloc() {
  char const* const text = std::getenv("QUARRY_MPI_MALLOC");
  if (text == nullptr || *text == 0) return malloc_kind::collective;
  constexpr char const* names[] = {"collective", "dynamic", "cuda", "cuda-dynamic", "cuda-map"};
  std::string all;
  for (std::uint32_t i = 0; i < std::size(names); ++i) {
    if (std::strcmp(text, names[i]) == 0) return static_cast<malloc_kind>(i);
    all += (i == 0 ? "" : ", ") + std::string{names[i]};
  }
  throw bad_argument{std::string{"--malloc "} + text + ": must be one of " + all};
}

/// The options of programs of several processes. Throws bad_argument.
void read_processes(launch_options& asked) {
  asked.processes = static_cast<std::uint32_t>(
      number("QUARRY_MPI_PROCESSES", "--processes", 1, std::uint64_t{1} << 20));
  asked.process = static_cast<std::uint32_t>(
      number("QUARRY_MPI_PROCESS", "--process", 0, std::uint64_t{1} << 20));
  if (char const* const file = std::getenv("QUARRY_MPI_MEETING_FILE")) asked.meeting_file = file;
  std::string const wanted = "--processes " + std::to_string(asked.processes);
  if (asked.processes == 0) throw bad_argument{wanted + ": must be at least 1"};
  if (asked.process >= asked.processes)
    throw bad_argument{"--process " + std::to_string(asked.process) + ": must be less than " +
                       std::to_string(asked.processes) + ", the number of processes"};
  if (!spans_processes) {
    if (asked.processes == 1) return;
    throw bad_argument{wanted + ": the program was compiled without quarry-mpicc --processes"};
  }
  if ((asked.processes - 1) * std::uint64_t{asked.ranks_each()} >= asked.ranks)
    throw bad_argument{wanted + ": " + std::to_string(asked.ranks) +
                       " ranks are too few, since each process gets " +
                       std::to_string(asked.ranks_each()) + "; run with fewer processes"};
  if (asked.ranks > most_ranks_in_processes)
    throw bad_argument{"-n " + std::to_string(asked.ranks) +
                       ": ranks of several processes can be at most " +
                       std::to_string(most_ranks_in_processes)};
  if (asked.processes > 1 && asked.meeting_file.empty())
    throw bad_argument{wanted +
                       ": start the program with quarry-mpirun, or name a file in "
                       "--meeting-file by which the processes find each other"};
  if (!asked.trace.empty())
    throw bad_argument{"--trace: a program of several processes cannot be traced yet"};
  if (asked.gpus > 1)
    throw bad_argument{"--gpus " + std::to_string(asked.gpus) +
                       ": each process of such a program has one GPU; use --processes"};
}

launch_options read_options() {
  constexpr bytes most_bytes = 65536_GiB;
  launch_options asked;
  asked.ranks =
      static_cast<std::uint32_t>(number("QUARRY_MPI_RANKS", "-n", 1, (std::uint64_t{1} << 31) - 1));
  if (asked.ranks == 0) throw bad_argument{"-n 0: the number of ranks must be at least 1"};
  asked.heap = size("QUARRY_MPI_HEAP", "--heap", most_bytes);
  asked.stack = size("QUARRY_MPI_STACK", "--stack", 1_GiB);
  if (asked.stack != 0 && asked.stack < 1_KiB)
    throw bad_argument{"--stack " + std::to_string(asked.stack) + ": must be at least 1 KiB"};
  asked.ranks_per_warp =
      static_cast<std::uint32_t>(number("QUARRY_MPI_RANKS_PER_WARP", "--ranks-per-warp", 0, 32));
  asked.gpus = static_cast<std::uint32_t>(number("QUARRY_MPI_GPUS", "--gpus", 1, 1024));
  if (asked.gpus == 0) throw bad_argument{"--gpus 0: must be at least 1"};
  asked.registers =
      static_cast<std::uint32_t>(number("QUARRY_MPI_REGISTERS", "--registers", 0, 255));
  asked.malloc = read_malloc();
  asked.seed = number("QUARRY_MPI_SEED", "--seed", 0, ~std::uint64_t{0});
  asked.threads = static_cast<std::uint32_t>(number("QUARRY_MPI_THREADS", "--threads", 1, 4096));
  char const* const trace = std::getenv("QUARRY_MPI_TRACE");
  if (trace != nullptr) asked.trace = trace;
  asked.trace_events = static_cast<std::uint32_t>(
      number("QUARRY_MPI_TRACE_EVENTS", "--trace-events", 0, (std::uint64_t{1} << 31) - 1));
  asked.is_verbose = number("QUARRY_MPI_VERBOSE", "--verbose", 0, 1) != 0;
  read_processes(asked);
  return asked;
}

}  // namespace

void line_writer::add(std::uint32_t rank, std::uint8_t stream, char const* text,
                      std::size_t length) {
  if (stream == report_stream) return write_report({text, length});
  std::string& part = parts_[2 * std::size_t{rank} + (stream == 2 ? 1 : 0)];
  if (stream == 3) {
    write_text(1, part);
    part.clear();
    return;
  }
  part.append(text, length);
  auto const end = part.rfind('\n');
  if (end != std::string::npos) {
    write_text(stream, std::string_view{part}.substr(0, end + 1));
    part.erase(0, end + 1);
  }
  if (stream == 2 && !part.empty()) errors_.try_emplace(rank, 0);
}

namespace {

constexpr std::string_view first_words = "check: rank ";  // of a report of the checks
constexpr std::size_t shown_reports = 10;                 // of those that differ in the rank alone
constexpr std::size_t known_reports = 10'000;             // later ones are all shown

}  // namespace

/// A loop or many ranks can have one fault millions of times.
bool line_writer::is_shown(std::string_view report) {
  auto const end = report.starts_with(first_words) ? report.find(": ", first_words.size())
                                                   : std::string_view::npos;
  if (end == std::string_view::npos) return true;
  auto const text = report.substr(end + 2);
  auto known = reports_.find(text);
  if (known == reports_.end()) {
    if (reports_.size() == known_reports) return true;
    known = reports_.emplace(text, 0).first;
  }
  return ++known->second <= shown_reports;
}

void line_writer::write_report(std::string_view line) {
  std::string const text = with_places(line);
  if (is_shown(text)) write_text(2, "quarry-mpirun: " + text + '\n');
}

/// Places stand in the line as `@number@`.
std::string line_writer::with_places(std::string_view line) const {
  std::string text;
  for (auto at = line.find('@'); at != std::string_view::npos; at = line.find('@')) {
    std::size_t place = 0;
    auto const digits = line.substr(at + 1);
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place);
    bool const is_place =
        error == std::errc{} && end != digits.data() + digits.size() && *end == '@';
    text += line.substr(0, at);
    if (is_place)
      text += place < places_.size() && place != 0 ? places_[place] : "an unknown place";
    line = is_place ? digits.substr(static_cast<std::size_t>(end - digits.data()) + 1) : digits;
  }
  text += line;
  return text;
}

void line_writer::write_errors() {
  for (auto entry = errors_.begin(); entry != errors_.end();) {
    auto& [rank, size] = *entry;
    std::string& part = parts_[2 * std::size_t{rank} + 1];
    if (part.size() == size) {
      write_text(2, part);
      part.clear();
    }
    size = part.size();
    entry = part.empty() ? errors_.erase(entry) : std::next(entry);
  }
}

void line_writer::finish() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].empty()) continue;
    write_text(i % 2 == 1 ? 2 : 1, parts_[i]);
    parts_[i].clear();
  }
  for (auto& [text, count] : reports_) {
    if (count <= shown_reports) continue;
    char begin[64];
    int const length = std::snprintf(begin, sizeof(begin),
                                     "quarry-mpirun: check: %zu more: ", count - shown_reports);
    write_text(2, {begin, static_cast<std::size_t>(length)});
    write_text(2, text);
    write_text(2, "\n");
    count = shown_reports;
  }
}

std::vector<std::string> texts_of(char const* begin, char const* end) {
  std::vector<std::string> places;
  for (; begin < end; begin += places.back().size() + 1) places.emplace_back(begin);
  return places;
}

namespace {

std::string name_of_call(std::uint32_t call) {
  if (call < first_scheduled_call) return call_names[call];
  std::string name = operation_names[(call - first_scheduled_call) / 4];
  switch (static_cast<form>(call % 4)) {
    case form::nonblocking:
      name[0] = static_cast<char>(name[0] - 'A' + 'a');
      return "MPI_I" + name;
    case form::persistent:
      return "MPI_" + name + "_init";
    default:
      return "MPI_" + name;
  }
}

}  // namespace

std::string describe_waits(std::vector<rank_state> const& ranks,
                           std::vector<std::string> const& places, std::uint32_t first) {
  struct row {
    std::uint32_t first, count;
    std::int32_t distance;
    bool has_distance;
  };
  // Ranks that wait in one call at one place are a row; ranks whose peers lie at one distance, too.
  std::map<std::string, row> rows;
  std::vector<std::string> order;
  bool is_heap_full = false;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    rank_state const& state = ranks[rank];
    std::ostringstream text;
    if (state.stage == life::done) {
      text << "has ended";
      if (state.exit_code != 0) text << " with status " << state.exit_code;
    } else if (state.waiting.call == 0) {
      text << "runs";
    } else {
      auto const& wait = state.waiting;
      text << name_of_call(wait.call);
      if (wait.peer != MPI_PROC_NULL && wait.context % 2 == 0) {
        auto const distance = wait.peer - static_cast<std::int32_t>(first + rank);
        if (wait.peer == MPI_ANY_SOURCE) {
          text << ", peer any";
        } else {
          text << ", peer rank " << (distance < 0 ? "- " : "+ ")
               << (distance < 0 ? -distance : distance);
        }
        text << ", tag " << (wait.tag == MPI_ANY_TAG ? "any" : std::to_string(wait.tag));
      }
      if (wait.peer == MPI_PROC_NULL && wait.tag > 0) text << ", " << wait.tag << " numbers";
      text << ", communicator " << wait.context / 2;
      if (wait.place < places.size() && !places[wait.place].empty())
        text << ", " << places[wait.place];
      if (wait.is_for_memory != 0 || state.looks_without_memory != 0) {
        text << ", waits for memory";
        is_heap_full = true;
      }
    }
    auto const [position, is_new] = rows.try_emplace(text.str(), row{rank, 0, 0, false});
    if (is_new) order.push_back(text.str());
    ++position->second.count;
  }
  std::ostringstream table;
  for (auto const& text : order) {
    row const& found = rows.at(text);
    table << "  rank " << first + found.first;
    if (found.count > 1) table << " and " << found.count - 1 << " others";
    table << ": " << text << '\n';
  }
  if (is_heap_full) table << "  the heap is full: run with a larger --heap\n";
  return table.str();
}

std::string describe_deadlock(std::vector<rank_state> const& ranks,
                              std::vector<std::string> const& places) {
  return "quarry-mpirun: deadlock: no rank can continue\n" + describe_waits(ranks, places, 0) +
         describe_wait_graph(ranks);
}

std::string describe_unfinished(std::vector<rank_state> const& ranks,
                                std::vector<std::uint32_t> const& last_calls,
                                std::vector<std::string> const& places) {
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> rows;  // first rank, count
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].stage != life::done)
      ++rows.try_emplace(last_calls[rank], rank, 0).first->second.second;
  std::ostringstream text;
  text << "quarry-mpirun: ranks have not ended after " << grace_seconds
       << " seconds; the process ends\n";
  for (auto const& [place, row] : rows) {
    text << "  rank " << row.first;
    if (row.second > 1) text << " and " << row.second - 1 << " others";
    if (place < places.size() && !places[place].empty())
      text << ": after the MPI call at " << places[place] << '\n';
    else
      text << ": before its first MPI call\n";
  }
  return text.str();
}

std::string describe_signal(int signal) {
  return std::string{"quarry-mpirun: "} + (signal == SIGINT ? "SIGINT" : "SIGTERM") +
         " ends the program\n";
}

int status_of_deadlock(std::vector<rank_state> const& ranks) {
  for (rank_state const& state : ranks)
    if (state.stage == life::done && state.exit_code != 0) return state.exit_code;
  return 1;
}

std::size_t describe_refusals(refused_memory const& refused, char (&text)[256]) {
  auto const count = static_cast<unsigned long long>(refused.count);
  text[0] = '\0';
  if (count == 0) return 0;
  char first[80] = "";
  if (refused.first != 0)
    std::snprintf(first, sizeof(first), ", first to rank %u for %llu bytes", refused.first - 1,
                  static_cast<unsigned long long>(refused.first_size));
  int const length = std::snprintf(text, sizeof(text),
                                   "quarry-mpirun: the heap had no room: malloc and its family "
                                   "returned null %llu time%s%s; run with a larger --heap\n",
                                   count, count == 1 ? "" : "s", first);
  return length < 0 ? 0 : std::min(static_cast<std::size_t>(length), sizeof(text) - 1);
}

std::string describe_refusals(refused_memory const& refused) {
  char text[256];
  return {text, describe_refusals(refused, text)};
}

std::string describe_failure(failure const& first, std::vector<std::string> const& places) {
  if (first.length == 0) return {};
  std::string message = "quarry-mpirun: " + std::string{first.text, first.length};
  if (first.place < places.size() && !places[first.place].empty())
    message += (message.ends_with(" at") ? " " : ", ") + places[first.place];
  return message + '\n';
}

}  // namespace quarry::inline QUARRY_ABI::mpi

int main(int argc, char** argv) {
  using namespace quarry::mpi;
  launch_options asked;
  std::string wanted;
  try {
    asked = read_options();
    wanted = wanted_device();
    block_signals();  // before CUDA starts threads
    asked.uses_gpu = wanted == "gpu" || (wanted.empty() && has_gpu());
    if (asked.uses_gpu) {
      check_gpu_options(asked);
    } else {
      if (quarry::mpi_tuning::short_run const tuning; tuning.exists()) {
        tuning.report(tuning.on_cpu, 0);
        return 0;
      }
      check_cpu_options(asked, wanted == "cpu"
                                   ? "as --device says"
                                   : "since no GPU was found that the program has code for");
    }
  } catch (quarry::bad_argument const& problem) {
    std::fprintf(stderr, "quarry-mpirun: %s\n", problem.what());
    return 2;
  }
  if (!asked.uses_gpu) report_faults();
  try {
    return asked.uses_gpu ? run_on_gpu(asked, argc, argv) : run_on_cpu(asked, argc, argv);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "quarry-mpirun: %s\n", problem.what());
    if (asked.processes > 1)
      std::ofstream{quarry::mpi_processes::failed_file(asked.meeting_file)} << problem.what();
    return 1;
  }
}
