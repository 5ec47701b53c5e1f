// SPDX-License-Identifier: Apache-2.0
#include "call_graph.hpp"

#include <llvm/Object/ELF.h>
#include <llvm/Support/Endian.h>

#include <algorithm>

namespace quarry::compiler {
namespace {

using namespace llvm;
using elf = object::ELFFile<object::ELF64LE>;

/// Kinds of entries in `.nv.info` and `.nv.callgraph`; ptxas and nvlink write them, nvdisasm prints
/// them with names.
constexpr std::uint8_t sized_value = 4;
constexpr std::uint8_t frame_size = 0x11;
constexpr std::int32_t direct_calls = -1;
constexpr std::int32_t pointer_calls = -3;

class cubin_reader {
 public:
  explicit cubin_reader(elf const& file) : file_{file} {}

  bool read(call_graph& graph) {
    auto sections = file_.sections();
    if (!sections) return forget(sections.takeError());
    StringRef info;
    StringRef calls;
    for (auto const& section : *sections) {
      auto name = file_.getSectionName(section);
      if (!name) return forget(name.takeError());
      if (section.sh_type == ELF::SHT_SYMTAB && !read_symbols(section)) return false;
      if (*name == ".nv.info" || *name == ".nv.callgraph") {
        auto contents = file_.getSectionContents(section);
        if (!contents) return forget(contents.takeError());
        (*name == ".nv.info" ? info : calls) =
            StringRef{reinterpret_cast<char const*>(contents->data()), contents->size()};
      }
    }
    if (info.empty() || calls.empty()) return false;
    read_frames(info, graph);
    read_calls(calls, graph);
    return true;
  }

 private:
  static bool forget(Error error) {
    consumeError(std::move(error));
    return false;
  }

  bool read_symbols(elf::Elf_Shdr const& section) {
    auto table = file_.getStringTableForSymtab(section);
    if (!table) return forget(table.takeError());
    auto symbols = file_.symbols(&section);
    if (!symbols) return forget(symbols.takeError());
    for (auto const& symbol : *symbols) {
      auto name = symbol.getName(*table);
      if (!name) return forget(name.takeError());
      names_.push_back(name->str());
    }
    return true;
  }

  std::string name(std::uint32_t symbol) const {
    return symbol < names_.size() ? names_[symbol] : "";
  }

  void read_frames(StringRef info, call_graph& graph) {
    while (info.size() >= 4) {
      auto const* const entry = info.bytes_begin();
      std::size_t const size = entry[0] == sized_value ? support::endian::read16le(entry + 2) : 0;
      if (4 + size > info.size()) return;
      if (entry[1] == frame_size && size == 8)
        graph.functions[name(support::endian::read32le(entry + 4))].frame =
            support::endian::read32le(entry + 8);
      info = info.drop_front(4 + size);
    }
  }

  void read_calls(StringRef calls, call_graph& graph) {
    std::int32_t kind = direct_calls;
    for (; calls.size() >= 8; calls = calls.drop_front(8)) {
      std::uint32_t const first = support::endian::read32le(calls.bytes_begin());
      auto const second =
          static_cast<std::int32_t>(support::endian::read32le(calls.bytes_begin() + 4));
      if (first == 0 && second < 0) {
        kind = second;
      } else if (kind == direct_calls) {
        graph.functions[name(first)].called.insert(name(static_cast<std::uint32_t>(second)));
      } else if (kind == pointer_calls) {
        graph.functions[name(first)].calls_pointers = true;
      }
    }
  }

  elf const& file_;
  std::vector<std::string> names_;
};

/// Tarjan's algorithm: strongly connected components in the order of their completion, so that each
/// component's need is known before that of its callers.
class need_finder {
 public:
  need_finder(call_graph const& graph, pointer_targets const& targets)
      : graph_{graph}, targets_{targets} {}

  stack_need find(std::string const& start) {
    visit(start);
    return {needs_[start].bytes, needs_[start].path, recursive_, calls_pointers_};
  }

 private:
  struct need {
    std::uint64_t bytes = 0;
    std::vector<std::string> path;
  };
  struct mark {
    std::size_t index, lowest;
    bool is_open;
  };

  /// Whether the function calls the program through pointers.
  bool reaches_by_pointers(std::string const& name) const {
    auto const found = graph_.functions.find(name);
    if (found == graph_.functions.end() || !found->second.calls_pointers) return false;
    auto const known = targets_.by_caller.find(name);
    return !(known == targets_.by_caller.end() ? targets_.all : known->second).empty();
  }

  std::set<std::string> called_by(std::string const& name) const {
    auto const found = graph_.functions.find(name);
    if (found == graph_.functions.end()) return {};
    auto called = found->second.called;
    if (!found->second.calls_pointers) return called;
    auto const known = targets_.by_caller.find(name);
    auto const& reached = known == targets_.by_caller.end() ? targets_.all : known->second;
    called.insert(reached.begin(), reached.end());
    return called;
  }

  void visit(std::string const& name) {
    std::size_t const index = marks_.size();
    calls_pointers_ = calls_pointers_ || reaches_by_pointers(name);
    marks_[name] = {index, index, true};
    open_.push_back(name);
    for (std::string const& called : called_by(name)) {
      auto const found = marks_.find(called);
      if (found == marks_.end()) {
        visit(called);
        marks_[name].lowest = std::min(marks_[name].lowest, marks_[called].lowest);
      } else if (found->second.is_open) {
        marks_[name].lowest = std::min(marks_[name].lowest, found->second.index);
      }
    }
    if (marks_[name].lowest == index) close(name);
  }

  void close(std::string const& first) {
    std::vector<std::string> members;
    do {
      members.push_back(open_.back());
      open_.pop_back();
      marks_[members.back()].is_open = false;
    } while (members.back() != first);
    need own;
    need deepest;
    for (std::string const& member : members) {
      auto const found = graph_.functions.find(member);
      if (found != graph_.functions.end()) own.bytes += found->second.frame;
      own.path.insert(own.path.begin(), member);
      for (std::string const& called : called_by(member)) {
        bool const is_member = std::ranges::find(members, called) != members.end();
        if (is_member) recursive_.insert(members.begin(), members.end());
        if (!is_member && needs_[called].bytes > deepest.bytes) deepest = needs_[called];
      }
    }
    own.bytes += deepest.bytes;
    own.path.insert(own.path.end(), deepest.path.begin(), deepest.path.end());
    for (std::string const& member : members) needs_[member] = own;
  }

  call_graph const& graph_;
  pointer_targets const& targets_;
  std::map<std::string, mark> marks_;
  std::map<std::string, need> needs_;
  std::vector<std::string> open_;
  std::set<std::string> recursive_;
  bool calls_pointers_ = false;
};

}  // namespace

call_graph read_call_graph(std::string const& cubin) {
  call_graph graph;
  auto file = elf::create(cubin);
  if (!file) {
    consumeError(file.takeError());
    return graph;
  }
  if (!cubin_reader{*file}.read(graph)) graph.functions.clear();
  return graph;
}

stack_need find_stack_need(call_graph const& graph, std::string const& start,
                           pointer_targets const& targets) {
  return need_finder{graph, targets}.find(start);
}

}  // namespace quarry::compiler
