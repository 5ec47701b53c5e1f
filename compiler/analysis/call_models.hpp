// SPDX-License-Identifier: Apache-2.0
// What the analysis knows of functions that it does not see: MPI's, and those of the C library.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/InstrTypes.h>

#include <array>
#include <cstdint>

namespace quarry::compiler {

/// What a result, or the bytes that a call writes, are in the ranks.
enum class model : std::uint8_t {
  none,
  uniform,    // the same in all ranks
  varying,    // may differ between ranks
  of_inputs,  // the same if all arguments, and the bytes that they point to, are the same
  of_world,   // the same if the communicator has all ranks
  of_part,    // a part of a communicator: the same if it has all ranks
  collective  // the same if all ranks call, with one count, for a communicator of all ranks
};

/// What a function returns.
enum class returned : std::uint8_t {
  value,        // see call_model::result
  memory,       // a new allocation
  argument,     // its first argument
  inside,       // a pointer into the object of its first argument
  environment,  // a string that all ranks share
  variable      // the address of a variable of the C library
};

/// Whether a call ends the job or leaves the function that calls it.
enum class ending : std::uint8_t {
  none,
  job,        // nobody waits for a job that has ended
  by_status,  // the job, if the first argument is a constant other than 0; else the rank alone
  jump        // goes on in another function
};

/// Whether a call writes `count` elements, or so many for each rank.
enum class of_ranks : std::uint8_t {
  none,
  in_order,  // one part after the other
  at_places  // each at its own displacement
};

/// Bytes that a call writes through a pointer.
struct effect {
  std::int8_t argument = -1;  // the pointer; `rest` stands for it and all arguments after it
  model value = model::none;
  std::int8_t count = -1;   // the argument that counts elements, or -1
  std::int8_t type = -1;    // the argument with the MPI datatype of an element, or -1
  std::uint16_t bytes = 0;  // the size without count and type; 0 if it is unknown
  bool is_rest = false;
  of_ranks ranks = of_ranks::none;
};

struct call_model {
  char const* name;
  model result = model::uniform;
  returned kind = returned::value;
  std::int8_t communicator = -1;  // an argument
  std::array<effect, 4> effects{};
  ending end = ending::none;
  bool has_state = false;      // reads and writes the variables of getopt
  bool copies = false;         // copies pointers from its second argument to its first
  bool calls_back = false;     // calls a function that it gets with pointers that it gets
  bool points_inside = false;  // writes a pointer into its first argument through its second
  bool makes_number = false;   // its first argument becomes a number, which can become a pointer
};

/// The name of the function of MPI that does the work: a function of MPI 4 with large counts has
/// the arguments of the one without them.
llvm::StringRef without_large_counts(llvm::StringRef name);

/// The model of a function, by its name in C; null if the analysis does not know the function.
call_model const* model_of(llvm::StringRef name);

/// The model of the function that is called; null also for a call through a pointer, and for a call
/// with fewer arguments than the model names.
call_model const* model_of(llvm::CallBase const& call);

/// Whether the function keeps the pointers that it gets, for calls that write through them later: a
/// persistent operation of MPI.
bool keeps_pointers(call_model const& called);

/// Whether the function writes through pointers that others have kept: MPI_Start and MPI_Startall.
/// The program must not touch the memory before the operation's end, so its writes are those of
/// this call.
bool uses_kept_pointers(call_model const& called);

/// The arguments of an allocation function whose product is the size of the allocation.
struct allocation_model {
  char const* name;
  std::int8_t size;
  std::int8_t count = -1;
  bool copies_text = false;  // the size is that of the string argument `size`
};

/// Null if the function does not allocate for the program.
allocation_model const* allocation_of(llvm::StringRef name);

/// The name in C of a function that the runtime provides: without the runtime's prefix.
llvm::StringRef name_in_c(llvm::StringRef name);

}  // namespace quarry::compiler
