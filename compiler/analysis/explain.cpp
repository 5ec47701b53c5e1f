// SPDX-License-Identifier: Apache-2.0
#include "explain.hpp"

#include "../merge_arms.hpp"
#include "../unsupported.hpp"
#include "call_models.hpp"
#include "model_program.hpp"
#include "reasons.hpp"
#include "sync_safety.hpp"
#include "uniformity.hpp"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

namespace quarry::compiler {

using namespace llvm;

namespace {

allocation_model const* allocation_in(Instruction const& instruction) {
  auto const* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr || call->getCalledFunction() == nullptr ||
      !call->getCalledFunction()->isDeclaration())
    return nullptr;
  auto const* const model = allocation_of(name_in_c(call->getCalledFunction()->getName()));
  if (model == nullptr) return nullptr;
  // A configure script's probe passes no arguments.
  return static_cast<int>(call->arg_size()) > std::max(model->size, model->count) ? model : nullptr;
}

/// The calls of the program by number.
std::map<std::uint32_t, CallBase const*> calls_of(Module const& program) {
  std::map<std::uint32_t, CallBase const*> calls;
  for (Function const& function : program)
    for (Instruction const& instruction : instructions(function))
      if (auto const* const call = dyn_cast<CallBase>(&instruction))
        if (auto const path = path_of(*call); !path.empty()) calls[path.back()] = call;
  return calls;
}

/// The site of the program, without its class, whose call in the source is at `location`.
allocation_site site_at(DILocation const* location, CallBase const& call, StringRef name) {
  allocation_site site;
  std::string const place = place_of(location);
  auto const colon = place.rfind(':');
  site.file = place.substr(0, colon);
  if (colon != std::string::npos)
    site.line = static_cast<unsigned>(std::stoul(place.substr(colon + 1)));
  if (location != nullptr) site.column = location->getColumn();
  site.function = name_in_source(*call.getFunction());
  site.call = name.str();
  return site;
}

/// The sites of a call of the program: those of the source that it serves.
std::vector<allocation_site> sites_of(CallBase const& call, StringRef name) {
  auto const places = merged_places(call);
  if (places.empty()) return {site_at(call.getDebugLoc().get(), call, name)};
  std::vector<allocation_site> sites;
  for (DILocation const* const place : places) {
    allocation_site& site = sites.emplace_back(site_at(place, call, name));
    site.branch = place_of(call);
    for (DILocation const* const other : places)
      if (other != place) site.merged.push_back(place_of(other));
  }
  return sites;
}

/// «called at a.c:7, from f called at a.c:9»
std::string context_of(std::vector<std::uint32_t> const& path,
                       std::map<std::uint32_t, CallBase const*> const& calls) {
  std::string text;
  for (std::size_t i = path.size() - 1; i-- > 0;) {
    CallBase const& call = *calls.at(path[i]);
    if (call.getFunction()->getName() == root_name) break;  // main
    text += (text.empty() ? "called at "
                          : ", from " + name_in_source(*calls.at(path[i + 1])->getFunction()) +
                                ", "
                                "called at ") +
            place_of(call);
  }
  return text;
}

/// The first varying argument that determines the size; null if none varies.
Value const* varying_size(uniformity const& facts, CallBase const& call,
                          allocation_model const& model) {
  for (std::int8_t const argument : {model.size, model.count})
    if (argument >= 0 && facts.varies(call.getArgOperandUse(static_cast<unsigned>(argument))))
      return call.getArgOperand(static_cast<unsigned>(argument));
  if (model.copies_text && facts.shows_varying(call.getArgOperand(0), 0, call))
    return facts.varying_write(call.getArgOperand(0), 0, call) == nullptr
               ? call.getArgOperand(0)
               : facts.varying_write(call.getArgOperand(0), 0, call);
  return nullptr;
}

void classify(uniformity const& facts, CallBase const& call, allocation_model const& model,
              bool has_reasons, allocation_site& site) {
  if (!facts.is_collective(*call.getParent())) {
    if (has_reasons)
      site.reason =
          "not all ranks call it equally often: " + why_not_collective(facts, *call.getParent());
  } else if (Value const* const size = varying_size(facts, call, model)) {
    site.kind = allocation_class::varying;
    if (has_reasons)
      site.reason = "all ranks call it; the size depends on " + why_varying(facts, *size);
  } else {
    site.kind = allocation_class::uniform;
    site.reason = "all ranks call it, with one size";
  }
}

/// «; one call before the branch at a.c:3, with malloc at a.c:6»
std::string merged_text(allocation_site const& site) {
  if (site.branch.empty()) return {};
  std::string text = "; one call before the branch at " + site.branch;
  for (std::size_t i = 0; i < site.merged.size(); ++i)
    text += (i == 0 ? ", with " + site.call + " at " : ", ") + site.merged[i];
  return text;
}

void judge_waiting(sync_safety const& safety, CallBase const& call, allocation_site& site) {
  if (site.kind == allocation_class::none) return;
  Instruction const* const waited = safety.wait_before(call);
  site.is_sync_safe = waited == nullptr;
  if (site.is_sync_safe) return;
  auto const& wait = cast<CallBase>(*waited);
  StringRef const name = original_name(wait);
  site.wait = (name.empty() ? "a call through a pointer" : name.str()) + " at " + place_of(wait);
}

/// «; sync-safe», «; not sync-safe after MPI_Recv at a.c:9»
std::string waiting_text(allocation_site const& site) {
  if (site.kind == allocation_class::none) return {};
  return site.is_sync_safe ? "; sync-safe" : "; not sync-safe after " + site.wait;
}

bool is_before(allocation_site const& a, allocation_site const& b) {
  return std::tie(a.file, a.line, a.column, a.path) < std::tie(b.file, b.line, b.column, b.path);
}

std::string title(allocation_site const& site) {
  return site.call + " at " + site.file + ":" + std::to_string(site.line) + " in " + site.function +
         (site.context.empty() ? "" : ", " + site.context);
}

}  // namespace

char const* name_of(allocation_class kind) {
  return kind == allocation_class::uniform ? "CU" : kind == allocation_class::varying ? "CV" : "NO";
}

std::vector<allocation_site> classify_allocations(Module const& program, bool has_reasons) {
  std::vector<allocation_site> sites;
  auto const calls = calls_of(program);
  bool const has_sites = std::ranges::any_of(
      calls, [](auto const& each) { return allocation_in(*each.second) != nullptr; });
  if (!has_sites) return sites;
  auto const model = make_model(program);
  uniformity const facts{*model};
  sync_safety const safety{*model, facts};
  std::set<std::uint32_t> found;
  for (Function const& function : *model) {
    for (Instruction const& instruction : instructions(function)) {
      allocation_model const* const allocation = allocation_in(instruction);
      if (allocation == nullptr) continue;
      auto const& call = cast<CallBase>(instruction);
      auto const path = path_of(call);
      if (path.empty()) continue;
      found.insert(path.back());
      allocation_site answer;
      classify(facts, call, *allocation, has_reasons, answer);
      judge_waiting(safety, call, answer);
      for (allocation_site& site :
           sites_of(*calls.at(path.back()), name_in_c(call.getCalledFunction()->getName()))) {
        site.path = path;
        site.context = context_of(path, calls);
        site.kind = answer.kind;
        site.is_sync_safe = answer.is_sync_safe;
        site.wait = answer.wait;
        site.reason = answer.reason + merged_text(site);
        sites.push_back(std::move(site));
      }
    }
  }
  for (auto const& [number, call] : calls) {
    if (allocation_in(*call) == nullptr || found.contains(number)) continue;
    for (allocation_site& site : sites_of(*call, name_in_c(call->getCalledFunction()->getName()))) {
      site.path = {number};
      site.reason = "no path from main that goes on leads to it";
      sites.push_back(std::move(site));
    }
  }
  std::ranges::sort(sites, is_before);
  return sites;
}

std::string explain_text(std::vector<allocation_site> const& sites) {
  std::string text;
  for (allocation_site const& site : sites)
    text += std::string{name_of(site.kind)} + "  " + title(site) + ": " + site.reason +
            waiting_text(site) + '\n';
  return text;
}

std::string explain_json(std::vector<allocation_site> const& sites) {
  std::string text;
  raw_string_ostream out{text};
  for (allocation_site const& site : sites) {
    json::OStream line{out};
    line.object([&] {
      line.attribute("file", site.file);
      line.attribute("line", site.line);
      line.attribute("column", site.column);
      line.attribute("function", site.function);
      line.attribute("context", site.context);
      line.attribute("call", site.call);
      line.attribute("class", name_of(site.kind));
      line.attribute("reason", site.reason);
      line.attribute("sync_safe", site.is_sync_safe);
      if (!site.wait.empty()) line.attribute("wait", site.wait);
      if (!site.branch.empty()) {
        line.attribute("branch", site.branch);
        line.attributeArray("merged", [&] {
          for (std::string const& place : site.merged) line.value(place);
        });
      }
    });
    out << '\n';
  }
  return text;
}

std::string explain_source(std::vector<allocation_site> const& sites) {
  std::map<std::string, std::map<unsigned, std::vector<allocation_site const*>>> by_file;
  for (allocation_site const& site : sites) by_file[site.file][site.line].push_back(&site);
  std::string text;
  for (auto const& [file, by_line] : by_file) {
    std::ifstream source{file};
    if (by_file.size() > 1) text += "/* " + file + " */\n";
    unsigned number = 0;
    for (std::string line; std::getline(source, line);) {
      ++number;
      auto const found = by_line.find(number);
      if (found != by_line.end()) {
        std::string const indent = line.substr(0, line.find_first_not_of(" \t"));
        for (allocation_site const* const site : found->second)
          text += indent + "/* " + name_of(site->kind) + " " + site->call +
                  (site->context.empty() ? "" : ", " + site->context) + ": " + site->reason +
                  waiting_text(*site) + " */\n";
      }
      text += line + '\n';
    }
  }
  return text;
}

}  // namespace quarry::compiler
