// SPDX-License-Identifier: Apache-2.0
// Which variables and allocations a pointer can point to, and which instructions write them.
#pragma once

#include "call_models.hpp"
#include "pointees.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include <deque>
#include <vector>

namespace quarry::compiler {

/// Whether a value of the type can be a pointer. Copies of structures and unions can move pointers
/// as numbers of 64 bits.
bool holds_pointers(llvm::Type const* type);

/// Whether the address is only subtracted from other addresses.
bool is_for_differences(llvm::PtrToIntInst const& number);

/// An instruction that writes bytes of an object.
struct object_write {
  unsigned object;
  byte_range range;
  llvm::Instruction* writer;
};

/// Inclusion-based and insensitive to the order of instructions (after Andersen). An object is a
/// variable, an allocating call, or a string of the environment.
class memory_objects {
 public:
  explicit memory_objects(llvm::Module& model);

  /// Where a pointer of the model can point.
  [[nodiscard]] pointees const& pointees_of(llvm::Value const* pointer) const;

  /// What an instruction writes. `unknown` becomes true if it can write any object.
  std::vector<object_write> writes_of(llvm::Instruction& instruction, bool& unknown) const;

  /// What an access of `type` through the pointer touches.
  [[nodiscard]] std::vector<object_write> accessed(llvm::Value const* pointer,
                                                   std::uint64_t size) const;

  [[nodiscard]] std::size_t count() const { return objects_.size(); }
  /// Whether the bytes may hold a pointer.
  [[nodiscard]] bool may_hold_pointer(llvm::Value const* address, std::uint64_t size) const;
  /// Whether code that the analysis does not know can reach the object.
  [[nodiscard]] bool is_escaped(unsigned object) const { return objects_[object].is_escaped; }
  /// Whether getopt reads and writes the object.
  [[nodiscard]] bool is_getopt_variable(unsigned object) const;
  /// The variable or the call; null for the environment and the state of getopt.
  [[nodiscard]] llvm::Value const* origin(unsigned object) const { return objects_[object].origin; }

 private:
  static constexpr std::uint64_t pointer_size = 8;

  struct held_pointer {
    byte_range range;
    pointees targets;
  };
  struct object_facts {
    llvm::Value const* origin = nullptr;
    std::vector<held_pointer> contents;  // the pointers that it holds
    bool is_escaped = false;
    llvm::SmallPtrSet<llvm::Instruction const*, 4> readers;  // that have been visited
  };

  /// So many calls that allocate have an object each. All others have one together, as a call in a
  /// loop has: if each of n objects may point to all others, their sets take O(n^2) of memory, and
  /// more time.
  static constexpr unsigned max_allocations = 256;

  unsigned new_object(llvm::Value const* origin);
  /// The object of a call that allocates, or of a variable of the C library.
  unsigned object_made_by(llvm::Value const* origin);
  bool add_contents(llvm::Constant const& contents, unsigned object, std::int64_t place);
  void add_initial_contents(llvm::GlobalVariable const& variable, unsigned object);
  /// `more` is a copy: it may be an entry of the map that grows.
  bool add_pointees(llvm::Value const* pointer, pointees more);
  bool visit(llvm::Instruction& instruction);
  bool add_parts(llvm::Instruction const& number);
  /// Visits all instructions until nothing changes. In between it visits those that a change wakes,
  /// which saves most rounds.
  void run_to_fixpoint();
  void wake(llvm::Value const& user);
  void wake_readers(unsigned object);
  bool visit_call(llvm::CallBase& call);
  bool visit_indirect_call(llvm::CallBase& call);
  bool call_defined(llvm::CallBase& call, llvm::Function const& called);
  /// Whether a call through a pointer can only call functions that the program defines.
  [[nodiscard]] bool is_resolved(llvm::CallBase const& call) const;
  bool copy_contents(llvm::Value const* to, llvm::Value const* from);
  bool store(pointees const& where, pointees const& value, std::uint64_t size = pointer_size);
  bool store(unsigned object, byte_range range, pointees const& value);
  bool hold(unsigned object, byte_range range, pointees const& value);
  [[nodiscard]] pointees load(pointees const& where, std::uint64_t size) const;
  [[nodiscard]] pointees load(llvm::LoadInst const& reader) const;
  /// What all pointers point to that the objects hold.
  [[nodiscard]] pointees load_all(pointees const& where) const;
  bool escape(pointees const& escaped);
  pointees constant_pointees(llvm::Constant const* constant) const;
  static pointees inside(pointees const& base);
  pointees inside_arguments(llvm::CallBase const& call) const;
  pointees moved(pointees const& base, llvm::GEPOperator const& step) const;

  llvm::Module& model_;
  llvm::DataLayout const& layout_;
  std::vector<object_facts> objects_;
  llvm::DenseMap<llvm::Value const*, unsigned> object_of_;  // variables and allocating calls
  mutable llvm::DenseMap<llvm::Value const*, pointees> pointees_;
  llvm::DenseMap<llvm::Function const*, pointees> returned_;
  std::deque<llvm::Instruction*> woken_;
  llvm::DenseSet<llvm::Instruction const*> is_awake_;
  unsigned environment_ = 0;  // strings of the command line and the environment
  unsigned lists_ = 0;        // arrays of pointers to them
  unsigned options_ = 0;      // what getopt remembers
  unsigned allocations_ = 0;  // calls that allocate
  unsigned others_ = 0;       // the object of those beyond `max_allocations`; 0: there are none
  bool is_settled_ = false;   // pointers without a place so far have none that is known
};

}  // namespace quarry::compiler
