// SPDX-License-Identifier: Apache-2.0
// The lines of Python code that allocate and free.
#pragma once

#include "quarry/trace/recorder.hpp"

#include "module.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace quarry::python {

/// Excludes the code in a folder and below from call sites: allocators and frameworks, whose
/// callers are of interest. Needs Python's lock. Does not change call sites that are known already.
void hide_code_of(std::string const& folder);

class frame;

/// The numbers of Python's call sites in a recorder. A call site is the innermost Python frame of
/// the calling thread whose code is not hidden; its label is `file:line function`.
///
/// Cost. Each instruction that calls is looked up once; later calls find its number in a hash
/// table, one lookup for each frame up to the call site. The code of each call site stays in memory
/// until this object is destroyed.
class call_sites {
 public:
  explicit call_sites(std::shared_ptr<trace::recorder> target) : target_{std::move(target)} {}
  call_sites(call_sites const&) = delete;
  call_sites& operator=(call_sites const&) = delete;
  ~call_sites();

  /// The number of the present call site. 0 if this thread does not hold Python's lock, or no frame
  /// qualifies. Python may run other code meanwhile, such as finalizers that free memory. So the
  /// caller must not hold a lock that such code takes.
  [[nodiscard]] std::uint32_t find();
  /// The same, but takes Python's lock if this thread has run Python code. The caller must not hold
  /// any lock for which a thread with Python's lock may wait.
  [[nodiscard]] std::uint32_t find_with_lock();

  [[nodiscard]] trace::recorder& target() const { return *target_; }

 private:
  /// An instruction of a code object; in Python 3.10, a line.
  struct place {
    PyObject* code;
    int position;
    friend bool operator==(place const&, place const&) = default;
    struct hash {
      std::size_t operator()(place const& key) const {
        return (reinterpret_cast<std::size_t>(key.code) >> 4) * 0x9e3779b97f4a7c15 +
               static_cast<std::size_t>(key.position) * 0x2545f4914f6cdd1d;
      }
    };
  };
  struct site {
    std::uint32_t number;
    nb::object code;  // keeps the address in `place` from being reused
  };

  [[nodiscard]] std::uint32_t innermost();
  /// `hidden` for hidden code. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t number_of(frame const& present);

  std::shared_ptr<trace::recorder> target_;
  std::unordered_map<place, site, place::hash> sites_;  // Guarded by: Python's lock
};

/// A call from Python during which other Python threads may run. Finds the call site with Python's
/// lock, then releases the lock until the end of the call. A null `sites` means no call site.
class recorded_call {
 public:
  explicit recorded_call(call_sites* sites) {
    if (sites != nullptr) {
      if (std::uint32_t const number = sites->find()) site_.emplace(sites->target(), number);
    }
    without_lock_.emplace();
  }

 private:
  std::optional<trace::call_site_scope> site_;
  std::optional<released_gil> without_lock_;
};

}  // namespace quarry::python
