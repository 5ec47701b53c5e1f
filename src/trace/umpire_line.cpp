// SPDX-License-Identifier: Apache-2.0
#include "trace/umpire_line.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

struct member {
  std::string_view key;
  json_value umpire_line::* place;
};

constexpr member outer_members[] = {{"category", &umpire_line::category},
                                    {"name", &umpire_line::name},
                                    {"timestamp", &umpire_line::timestamp},
                                    {"op", &umpire_line::operation},
                                    {"status", &umpire_line::status},
                                    {"seq", &umpire_line::sequence},
                                    {"allocator_id", &umpire_line::allocator_id},
                                    {"allocation_id", &umpire_line::allocation_id},
                                    {"size", &umpire_line::replayed_size},
                                    {"strategy", &umpire_line::type},
                                    {"schema", &umpire_line::schema}};
constexpr member numbers[] = {{"size", &umpire_line::size}, {"arg1", &umpire_line::alignment}};
constexpr member strings[] = {{"allocator_ref", &umpire_line::allocator_ref},
                              {"pointer", &umpire_line::pointer},
                              {"current_ptr", &umpire_line::current_ptr},
                              {"new_ptr", &umpire_line::new_ptr},
                              {"arg0", &umpire_line::first_argument},
                              {"type", &umpire_line::type},
                              {"allocation_name", &umpire_line::allocation_name},
                              {"name", &umpire_line::event_name},
                              {"resource", &umpire_line::resource}};
constexpr member tags[] = {{"allocator_name", &umpire_line::allocator_name}};
constexpr member arguments[] = {{"parent_allocator", &umpire_line::parent_allocator}};

template <std::size_t Count>
void set_member(umpire_line& parsed, member const (&members)[Count], json_scanner const& scanner) {
  for (auto const& [name, place] : members) {
    if (scanner.key() == name) {
      parsed.*place = scanner.value();
      return;
    }
  }
}

}  // namespace

std::string parse_umpire_line(std::string_view line, umpire_line& parsed) {
  json_scanner scanner{line};
  while (scanner.next()) {
    std::string_view const group = scanner.group();
    if (group.empty()) {
      bool const is_kind = scanner.key() == "kind";
      bool const is_second = is_kind && scanner.value().text == "umpire_replay";
      parsed.is_second_header |= is_second;
      parsed.is_of_old_format |= (is_kind && !is_second) || scanner.key() == "event";
      set_member(parsed, outer_members, scanner);
    } else if (group == "numeric_args") {
      set_member(parsed, numbers, scanner);
    } else if (group == "string_args") {
      set_member(parsed, strings, scanner);
    } else if (group == "tags") {
      set_member(parsed, tags, scanner);
    } else if (group == "args") {
      set_member(parsed, arguments, scanner);
    }
  }
  return scanner.fault();
}

}  // namespace quarry::inline QUARRY_ABI::trace
