// SPDX-License-Identifier: Apache-2.0
#include "translate.hpp"

#include "analysis/model_program.hpp"
#include "analysis/specialise.hpp"
#include "back_end.hpp"
#include "c_features.hpp"
#include "c_variables.hpp"
#include "call_types.hpp"
#include "failure.hpp"
#include "frame_memory.hpp"
#include "lower.hpp"
#include "math_calls.hpp"
#include "memory_calls.hpp"
#include "merge_arms.hpp"
#include "profiling.hpp"
#include "trace_calls.hpp"
#include "unrolling.hpp"
#include "variadic_calls.hpp"
#include "zero_divisors.hpp"

#include <llvm/Object/Archive.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// Lets optimisation see that nothing outside calls the program's functions.
void hide_functions(Module& module) {
  for (GlobalValue& value : module.global_values()) {
    bool const is_called_by_runtime = value.getName().starts_with("quarry_mpi_");
    if (!value.isDeclaration() && !is_called_by_runtime && !value.hasAppendingLinkage())
      value.setLinkage(GlobalValue::InternalLinkage);
  }
}

allocation_calls calls_for(options const& asked) {
  if (asked.records_allocations) return allocation_calls::recorded;
  return asked.meets == meeting_place::none ? allocation_calls::served
                                            : allocation_calls::preceded_by_meetings;
}

}  // namespace

translation translate(program& whole, options const& asked, installation const& installed,
                      std::set<std::string> const& runtime_functions, std::string const& path) {
  target const machine = whole.machine();
  Module& module = whole.module();
  auto const generator = machine_for(machine, asked.gpu, asked.level);
  module.setTargetTriple(generator->getTargetTriple().str());
  translation result;
  find_inline_assembly(module, result.missing);
  find_undeclared_malloc(module, result.missing);
  if (!rename_main(module)) throw failure{"the program has no function main"};
  if (machine == target::gpu) {
    std::string const error = link_functions(module, installed.complex);
    if (!error.empty()) throw failure{error};
    call_math_functions(module);
  }
  allow_early_end(module);
  bind_profiling_names(module);
  replace_c_variables(module);
  lower_c_features(module, runtime_functions);
  match_calls(module,
              read_call_types(machine == target::gpu ? installed.function_types : std::string{}));
  connect_to_runtime(module, machine, runtime_functions, result.missing);
  if (!result.missing.empty()) return result;
  number_calls(module);
  if (asked.merges_arms) merge_arms(module);
  bool const explains_classes =
      asked.explains != explanation::none && asked.explains != explanation::arrays;
  result.sites = classify_allocations(module, explains_classes);
  if (asked.assumes_collective)
    for (allocation_site& site : result.sites) site.kind = allocation_class::uniform;
  if (explains_classes) return result;
  if (asked.meets == meeting_place::collective)
    for (allocation_site& site : result.sites)
      site.is_sync_safe = site.kind != allocation_class::none;
  specialise(module, result.sites, calls_for(asked));
  if (machine == target::gpu || asked.moves_frames) move_frames_to_heap(module);
  result.places = record_call_places(module, machine);
  if (asked.traces_calls) result.traced = trace_calls(module, result.places);
  if (asked.checks_calls) check_calls(module, runtime_functions);
  privatize_globals(module, machine);
  hide_functions(module);
  if (machine == target::gpu && !installed.math.empty()) {
    std::string const error = link_math(module, installed.math);
    if (!error.empty()) throw failure{error};
  }
  optimise(module, *generator, asked.level, [&](Module& inlined) {
    if (machine == target::gpu) allow_unrolling(inlined);
    if (asked.arrays == array_form::checked) {
      result.arrays = interleave_arrays(inlined, lane_array_calls::checked);
    } else if (machine == target::gpu && asked.arrays == array_form::interleaved) {
      result.arrays = interleave_arrays(inlined, lane_array_calls::served);
    }
  });
  if (asked.explains == explanation::arrays) return result;
  if (machine == target::gpu) {
    call_memory_functions(module);
    give_slots_to_arguments(module);
  }
  if (machine == target::gpu || asked.checks_divisors) report_zero_divisors(module, result.places);
  std::string const error = write_code(module, *generator, machine, path);
  if (!error.empty()) throw failure{error};
  return result;
}

std::set<std::string> names_in(std::string const& archive) {
  std::set<std::string> names;
  auto buffer = MemoryBuffer::getFile(archive);
  if (!buffer) throw failure{archive + ": " + buffer.getError().message()};
  auto parsed = object::Archive::create(**buffer);
  if (!parsed) throw failure{archive + ": " + toString(parsed.takeError())};
  for (auto const& symbol : (*parsed)->symbols()) names.insert(symbol.getName().str());
  return names;
}

}  // namespace quarry::compiler
