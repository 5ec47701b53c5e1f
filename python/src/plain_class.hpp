// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "module.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace quarry::python {

/// Binds a struct of values: each member is a read-only attribute, `to_dict()` has all members, and
/// `repr()` shows them.
template <class Value>
class plain_class {
 public:
  plain_class(nb::module_& core, char const* name, char const* documentation)
      : class_{core, name, documentation}, getters_{std::make_shared<getters>()} {
    auto const to_dict = [members = getters_](Value const& value) {
      nb::dict result;
      for (auto const& [member, read] : *members) result[member] = read(value);
      return result;
    };
    class_.def("to_dict", to_dict, nb::sig("def to_dict(self) -> dict[str, object]"),
               "All members by name.");
    class_.def("__repr__", [to_dict, name](Value const& value) {
      return nb::str("{}({})").format(
          nb::str(name),
          nb::str(", ").attr("join")(nb::module_::import_("builtins")
                                         .attr("map")(nb::str("{0[0]}={0[1]!r}").attr("format"),
                                                      to_dict(value).attr("items")())));
    });
  }

  template <class Member>
  plain_class& add(char const* name, Member member, char const* documentation = "") {
    class_.def_prop_ro(
        name, [member](Value const& value) { return std::invoke(member, value); }, documentation);
    getters_->emplace_back(
        name, [member](Value const& value) { return nb::cast(std::invoke(member, value)); });
    return *this;
  }

  /// Adds a method. The arguments are those of `nb::class_::def`.
  template <class... Arguments>
  plain_class& add_method(Arguments&&... arguments) {
    class_.def(std::forward<Arguments>(arguments)...);
    return *this;
  }

 private:
  using getters = std::vector<std::pair<char const*, std::function<nb::object(Value const&)>>>;
  nb::class_<Value> class_;
  std::shared_ptr<getters> getters_;
};

}  // namespace quarry::python
