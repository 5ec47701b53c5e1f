// SPDX-License-Identifier: Apache-2.0
// Makes allocators from texts. A text is parsed into terms, which are built from the outside in.
#include "quarry/host/allocators.hpp"
#include "quarry/host/pools/heuristics.hpp"
#include "quarry/host/pools/mixed_pool.hpp"
#include "quarry/host/pools/placements.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/file_resource.hpp"
#include "quarry/host/resources/fixed_size_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/numa_resource.hpp"
#include "quarry/host/resources/shared_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"

#include <charconv>
#include <limits>

namespace quarry::inline QUARRY_ABI::allocators {
namespace {

/// A word with arguments, `device(0)`; a number with a unit, `64MiB`; or a text in quotes. A word
/// may be a heuristic, `percent:50+hwm`.
struct term {
  enum class form { word, number, text };
  form is = form::word;
  std::string text = {};
  std::uint64_t number = 0;
  std::size_t position = 0;  // byte of the description
  std::string key = {};      // of an argument with a key
  std::vector<term> arguments = {};
};

/// Throws `bad_argument`. The message names the description and the byte of the error.
[[noreturn]] void refuse(std::string_view description, std::size_t position,
                         std::string const& why) {
  throw bad_argument{"allocators: '" + std::string{description} + "', at byte " +
                     std::to_string(position) + ": " + why};
}

class parser {
 public:
  explicit parser(std::string_view description) : description_{description} {}

  [[nodiscard]] term whole() {
    term result = next_term(0);
    skip_blanks();
    if (position_ != description_.size())
      refuse(description_, position_, "more than one description");
    return result;
  }

 private:
  static constexpr int max_depth = 16;

  [[nodiscard]] char current() const {
    return position_ < description_.size() ? description_[position_] : '\0';
  }
  void skip_blanks() {
    while (current() == ' ' || current() == '\t') ++position_;
  }
  [[nodiscard]] bool accept(char wanted) {
    skip_blanks();
    if (current() != wanted) return false;
    ++position_;
    return true;
  }
  [[nodiscard]] static bool is_digit(char character) {
    return character >= '0' && character <= '9';
  }
  [[nodiscard]] static bool is_word_character(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           is_digit(character) || character == '_' || character == ':' || character == '+';
  }
  [[nodiscard]] std::string word() {
    std::size_t const base = position_;
    while (is_word_character(current())) ++position_;
    return std::string{description_.substr(base, position_ - base)};
  }

  [[nodiscard]] term next_term(int depth) {
    skip_blanks();
    if (depth == max_depth)
      refuse(description_, position_, "parentheses are nested more than 16 deep");
    if (current() == '\'' || current() == '"') return text();
    if (is_digit(current())) return number();
    term result{.position = position_};
    result.text = word();
    if (result.text.empty())
      refuse(description_, position_, "a word, a number or a name in quotes is missing");
    if (!accept('(') || accept(')')) return result;
    do {
      result.arguments.push_back(argument(depth + 1));
    } while (accept(','));
    if (!accept(')'))
      refuse(description_, position_, "a comma or a closing parenthesis is missing");
    return result;
  }
  [[nodiscard]] term argument(int depth) {
    skip_blanks();
    std::size_t const base = position_;
    std::string key = is_digit(current()) ? "" : word();
    if (key.empty() || !accept('=')) {
      position_ = base;
      return next_term(depth);
    }
    term result = next_term(depth);
    result.key = std::move(key);
    return result;
  }
  [[nodiscard]] term text() {
    term result{.is = term::form::text, .position = position_};
    char const quote = description_[position_++];
    std::size_t const end = description_.find(quote, position_);
    if (end == std::string_view::npos)
      refuse(description_, result.position, "the quote has no end");
    result.text = description_.substr(position_, end - position_);
    position_ = end + 1;
    return result;
  }
  [[nodiscard]] term number() {
    term result{.is = term::form::number, .position = position_};
    auto const read = std::from_chars(description_.data() + position_,
                                      description_.data() + description_.size(), result.number);
    if (read.ec != std::errc{}) refuse(description_, position_, "the number is more than 2^64 - 1");
    position_ = static_cast<std::size_t>(read.ptr - description_.data());
    std::string const unit = word();
    int shift = 0;
    for (char const* const known : {"", "KiB", "MiB", "GiB", "TiB"}) {
      if (unit == known || (shift == 0 && unit == "B")) {
        if (result.number > std::numeric_limits<std::uint64_t>::max() >> shift)
          refuse(description_, result.position, "the size is more than 2^64 - 1 bytes");
        result.number <<= shift;
        return result;
      }
      shift += 10;
    }
    refuse(description_, result.position,
           "there is no unit '" + unit + "'; there are B, KiB, MiB, GiB and TiB");
  }

  std::string_view description_;
  std::size_t position_ = 0;
};

/// Returns the arguments of a term, each once, and refuses unused arguments.
class arguments_of {
 public:
  arguments_of(std::string_view description, term& clause)
      : description_{description}, clause_{clause} {}

  /// The next argument without a key, or the argument with this key; nullptr if there is none.
  [[nodiscard]] term* next() {
    if (used_ == clause_.arguments.size() || !clause_.arguments[used_].key.empty()) return nullptr;
    return &clause_.arguments[used_++];
  }
  [[nodiscard]] term& needed(char const* expected) {
    if (term* const found = next()) return *found;
    refuse(description_, clause_.position, "'" + clause_.text + "' needs " + expected);
  }
  [[nodiscard]] std::uint64_t number(term const& value, std::uint64_t maximum) {
    if (value.is != term::form::number) refuse(description_, value.position, "a number is missing");
    if (value.number > maximum)
      refuse(description_, value.position,
             std::to_string(value.number) + " is more than " + std::to_string(maximum));
    return value.number;
  }
  [[nodiscard]] std::string text(term const& value) {
    if (value.is != term::form::text)
      refuse(description_, value.position, "a text in quotes is missing");
    return value.text;
  }
  /// Calls `visit(key, value)` for each argument with a key. `visit` returns false for unknown
  /// keys.
  template <class Visit>
  void visit_keys(Visit const& visit) {
    for (; used_ < clause_.arguments.size() && !clause_.arguments[used_].key.empty(); ++used_) {
      term& value = clause_.arguments[used_];
      for (std::size_t i = 0; i < used_; ++i) {
        if (clause_.arguments[i].key == value.key)
          refuse(description_, value.position, "'" + value.key + "' comes twice");
      }
      if (!visit(value.key, value))
        refuse(description_, value.position,
               "'" + clause_.text + "' has no option '" + value.key + "'");
    }
  }
  void end() {
    if (used_ == clause_.arguments.size()) return;
    refuse(description_, clause_.arguments[used_].position,
           "'" + clause_.text + "' takes no such argument here");
  }

 private:
  std::string_view description_;
  term& clause_;
  std::size_t used_ = 0;
};

constexpr std::uint64_t max_number = std::numeric_limits<std::uint32_t>::max();

class builder {
 public:
  explicit builder(std::string_view description) : description_{description} {}

  [[nodiscard]] std::unique_ptr<allocator_model> allocator(std::string const& name, term& clause) {
    if (clause.is == term::form::word && clause.text == "pool") return pool_of(name, clause);
    if (clause.is == term::form::text)
      refuse(description_, clause.position,
             "this is the name of an allocator, not a description; see add_alias");
    return std::make_unique<resource_model<any_resource>>(resource(clause), name);
  }

 private:
  [[nodiscard]] any_resource resource(term& clause) {
    if (clause.is == term::form::text) return any_resource{at(clause.text).as_resource()};
    if (clause.is == term::form::number)
      refuse(description_, clause.position, "a resource is missing");
    arguments_of arguments{description_, clause};
    any_resource result = resource(clause, arguments);
    arguments.end();
    return result;
  }
  [[nodiscard]] any_resource resource(term& clause, arguments_of& arguments) {
    std::string const& word = clause.text;
    if (word == "host") return any_resource{host_resource{}};
    if (word == "device") {
      term const* const number = arguments.next();
      return any_resource{device_resource{
          number == nullptr ? 0 : static_cast<int>(arguments.number(*number, 255))}};
    }
    if (word == "pinned") return any_resource{pinned_resource{}};
    if (word == "managed") return any_resource{managed_resource{}};
    if (word == "file")
      return any_resource{file_resource{arguments.text(arguments.needed("a directory"))}};
    if (word == "numa")
      return any_resource{numa_resource{
          static_cast<unsigned>(arguments.number(arguments.needed("a node"), max_number))}};
    if (word == "shared") {
      std::string name = arguments.text(arguments.needed("a name"));
      return any_resource{shared_resource{std::move(name), size(arguments, "a size")}};
    }
    if (word == "limited") {
      any_resource upstream = resource(arguments.needed("a resource"));
      return any_resource{limited_resource{std::move(upstream), size(arguments, "a size")}};
    }
    if (word == "fixed_size") {
      any_resource upstream = resource(arguments.needed("a resource"));
      bytes const slot = size(arguments, "a size of slots");
      term const* const count = arguments.next();
      auto const slots = count == nullptr ? 1024 : arguments.number(*count, max_number);
      return any_resource{
          fixed_size_resource{std::move(upstream), slot, static_cast<std::uint32_t>(slots)}};
    }
    if (word == "slots") {
      any_resource upstream = resource(arguments.needed("a resource"));
      auto const count = arguments.number(arguments.needed("a number of slots"), max_number);
      return any_resource{
          size_cache_resource{std::move(upstream), static_cast<std::uint32_t>(count)}};
    }
    if (word == "mixed") {
      any_resource upstream = resource(arguments.needed("a resource"));
      mixed_options options;
      arguments.visit_keys([&](std::string const& key, term& value) {
        bytes* const option = key == "min_slot"   ? &options.min_slot
                              : key == "max_slot" ? &options.max_slot
                              : key == "slab"     ? &options.slab
                                                  : nullptr;
        if (option != nullptr) *option = arguments.number(value, ~bytes{0});
        return option != nullptr;
      });
      return any_resource{mixed_pool{std::move(upstream), options}};
    }
    if (word == "pool")
      refuse(description_, clause.position,
             "a pool under another has a name of its own: make it, and name it here");
    refuse(description_, clause.position,
           "there is no resource '" + word +
               "'; there are host, device, pinned, managed, file, numa, shared, limited, "
               "fixed_size, slots and mixed, and names of allocators in quotes");
  }
  [[nodiscard]] static bytes size(arguments_of& arguments, char const* expected) {
    return arguments.number(arguments.needed(expected), ~bytes{0});
  }

  [[nodiscard]] std::unique_ptr<allocator_model> pool_of(std::string const& name, term& clause) {
    arguments_of arguments{description_, clause};
    any_resource upstream = resource(arguments.needed("a resource"));
    pool_options options{.name = name};
    std::string placement = std::get<0>(named_placements).name;
    std::size_t placement_position = clause.position;
    arguments.visit_keys([&](std::string const& key, term& value) {
      auto const small = [&] {
        return static_cast<std::uint32_t>(arguments.number(value, max_number));
      };
      auto const large = [&] { return arguments.number(value, ~bytes{0}); };
      if (key == "first_block") return options.first_block = large(), true;
      if (key == "next_block") return options.next_block = large(), true;
      if (key == "growth_percent") return options.growth_percent = small(), true;
      if (key == "alignment") return options.alignment = large(), true;
      if (key == "max_bytes") return options.max_bytes = large(), true;
      if (key == "shrink_after") return options.shrink_after = large(), true;
      if (key == "red_zone") return options.red_zone = large(), true;
      if (key == "is_tracked") return options.is_tracked = boolean(value), true;
      if (key == "keeps_backtraces") return options.keeps_backtraces = boolean(value), true;
      if (key == "coalesce") return options.coalesce = heuristic_of(value), true;
      if (key != "placement") return false;
      placement = value.text;
      placement_position = value.position;
      return true;
    });
    arguments.end();
    return with_placement(
        placement,
        [&]<class Placement>() -> std::unique_ptr<allocator_model> {
          return std::make_unique<pool_model<pool<any_resource, Placement>>>(std::move(upstream),
                                                                             options);
        },
        [&](std::string const& reason) { refuse(description_, placement_position, reason); });
  }
  [[nodiscard]] bool boolean(term const& value) {
    if (value.is == term::form::word && value.text == "true") return true;
    if (value.is == term::form::word && value.text == "false") return false;
    refuse(description_, value.position, "true or false is missing");
  }
  /// `percent:50+hwm`, or, as in a program, `percent_releasable(50, to_high_water)`.
  [[nodiscard]] heuristic heuristic_of(term& clause) {
    arguments_of arguments{description_, clause};
    std::string text = clause.text;
    while (term const* const each = arguments.next())
      text +=
          each->is == term::form::number ? ':' + std::to_string(each->number) : '+' + each->text;
    arguments.end();
    try {
      return heuristic_named(text);
    } catch (bad_argument const& refused) {
      refuse(description_, clause.position, refused.message());
    }
  }

  std::string_view description_;
};

[[nodiscard]] std::string_view without_blanks(std::string_view text) {
  auto const first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The part of a line before a # that is not in quotes.
[[nodiscard]] std::string_view without_comment(std::string_view line) {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != '\0') {
      if (line[i] == quote) quote = '\0';
    } else if (line[i] == '\'' || line[i] == '"') {
      quote = line[i];
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

/// Must be called in an exception handler. Throws the handled exception again, with `suffix` after
/// its message.
[[noreturn]] void rethrow_with(std::string const& suffix) {
  try {
    throw;
  } catch (bad_argument const& failure) {
    throw bad_argument{failure.message() + suffix};
  } catch (out_of_memory const& failed) {
    out_of_memory const without{failed.resource(), failed.requested(), {}};
    throw out_of_memory{failed.resource(), failed.requested(),
                        failed.message().substr(without.message().size()) + suffix};
  } catch (resource_failed const& failed) {
    std::size_t const end_of_call = failed.message().find(": ");
    throw resource_failed{failed.message().substr(0, end_of_call),
                          failed.message().substr(end_of_call + 2) + suffix};
  }
}

}  // namespace

any_allocator make(std::string const& name, std::string_view description) {
  check_name(name);
  term parsed = parser{description}.whole();
  return add(name, builder{description}.allocator(name, parsed));
}

std::vector<any_allocator> make_all(std::string_view lines) {
  std::vector<any_allocator> result;
  for (std::size_t number = 1; !lines.empty(); ++number) {
    auto const end = std::min(lines.find('\n'), lines.size());
    auto const line = without_blanks(without_comment(lines.substr(0, end)));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.empty()) continue;
    try {
      auto const equals = line.find('=');
      if (equals == std::string_view::npos)
        throw bad_argument{"allocators: '" + std::string{line} + "' is no 'name = description'"};
      result.push_back(make(std::string{without_blanks(line.substr(0, equals))},
                            without_blanks(line.substr(equals + 1))));
    } catch (...) {
      rethrow_with(" (line " + std::to_string(number) + ')');
    }
  }
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::allocators
