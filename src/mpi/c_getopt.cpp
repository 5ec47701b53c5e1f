// SPDX-License-Identifier: Apache-2.0
// getopt and getopt_long, as glibc has them: operands move behind the options.
#include "c_files.hpp"
#include "format.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Reads the options of one command line.
class option_reader {
 public:
  QUARRY_SLOW option_reader(int argc, char** argv, char const* letters, c_option const* names,
                            int* name_index, bool is_long_only)
      : argc_{argc},
        argv_{argv},
        letters_{letters},
        names_{names},
        name_index_{name_index},
        is_long_only_{is_long_only},
        state_{own_library().options} {
    if (state_.index == 0) {  // starts again
      state_.index = 1;
      state_.next_letter = nullptr;
    }
    if (state_.index == 1 && state_.next_letter == nullptr)
      state_.first_operand = state_.last_operand = 1;
    if (*letters_ == '+' || *letters_ == '-') mode_ = *letters_++;
    is_silent_ = *letters_ == ':' || state_.prints_errors == 0;
    missing_result_ = *letters_ == ':' ? ':' : '?';
  }

  QUARRY_SLOW int next() {
    state_.argument = nullptr;
    if (state_.next_letter != nullptr && *state_.next_letter != 0) return short_option();
    state_.next_letter = nullptr;
    if (state_.last_operand > state_.index) state_.last_operand = state_.index;
    if (state_.first_operand > state_.index) state_.first_operand = state_.index;
    if (mode_ == 0) skip_operands();
    if (state_.index != argc_ && is_equal(argv_[state_.index], "--")) {
      ++state_.index;
      if (state_.first_operand == state_.last_operand) {
        state_.first_operand = state_.index;
      } else if (state_.last_operand != state_.index) {
        move_operands();
      }
      state_.last_operand = argc_;
      state_.index = argc_;
    }
    if (state_.index == argc_) {
      if (state_.first_operand != state_.last_operand) state_.index = state_.first_operand;
      return -1;
    }
    char* const word = argv_[state_.index];
    if (!is_option(word)) {
      if (mode_ == '+') return -1;
      state_.argument = word;
      ++state_.index;
      return 1;
    }
    if (names_ != nullptr && word[1] == '-') return long_option(word + 2, "--");
    if (names_ != nullptr && is_long_only_ && (word[2] != 0 || find_letter(word[1]) == nullptr))
      return long_option(word + 1, "-");
    state_.next_letter = word + 1;
    return short_option();
  }

 private:
  QUARRY_HD static bool is_option(char const* word) { return word[0] == '-' && word[1] != 0; }
  QUARRY_HD static bool is_equal(char const* a, char const* b) {
    while (*a != 0 && *a == *b) ++a, ++b;
    return *a == *b;
  }

  /// Moves the operands that were skipped behind the options that followed them.
  QUARRY_SLOW void move_operands() {
    int first = state_.first_operand;
    int const middle = state_.last_operand;
    int const end = state_.index;
    for (int from = middle; from < end; ++from, ++first) {
      char* const word = argv_[from];
      for (int i = from; i > first; --i) argv_[i] = argv_[i - 1];
      argv_[first] = word;
    }
    state_.first_operand += end - middle;
    state_.last_operand = end;
  }

  QUARRY_HD void skip_operands() {
    if (state_.first_operand != state_.last_operand && state_.last_operand != state_.index) {
      move_operands();
    } else if (state_.last_operand != state_.index) {
      state_.first_operand = state_.index;
    }
    while (state_.index < argc_ && !is_option(argv_[state_.index])) ++state_.index;
    state_.last_operand = state_.index;
  }

  QUARRY_HD char const* find_letter(char letter) const {
    if (letter == ':' || letter == ';') return nullptr;
    for (char const* at = letters_; *at != 0; ++at)
      if (*at == letter) return at;
    return nullptr;
  }

  QUARRY_SLOW int short_option() {
    char const letter = *state_.next_letter++;
    char const* const found = find_letter(letter);
    bool const is_last = *state_.next_letter == 0;
    if (is_last) ++state_.index;
    if (found == nullptr) {
      complain("invalid option -- '", letter);
      state_.bad_option = letter;
      return '?';
    }
    if (found[1] != ':') return letter;
    char* const rest = state_.next_letter;
    state_.next_letter = nullptr;
    if (!is_last) {
      state_.argument = rest;
      ++state_.index;
    } else if (found[2] != ':') {
      if (state_.index == argc_) {
        complain("option requires an argument -- '", letter);
        state_.bad_option = letter;
        return missing_result_;
      }
      state_.argument = argv_[state_.index++];
    }
    return letter;
  }

  QUARRY_HD int long_option(char* name, char const* prefix) {
    int length = 0;
    while (name[length] != 0 && name[length] != '=') ++length;
    int found = -1;
    bool is_ambiguous = false;
    for (int i = 0; names_[i].name != nullptr; ++i) {
      int same = 0;
      while (same < length && names_[i].name[same] == name[same]) ++same;
      if (same != length) continue;
      if (names_[i].name[length] == 0) {
        found = i;
        is_ambiguous = false;
        break;
      }
      is_ambiguous |= found >= 0 && (is_long_only_ || differ(names_[found], names_[i]));
      if (found < 0) found = i;
    }
    if (found < 0 && is_long_only_ && prefix[1] == 0 && find_letter(*name) != nullptr) {
      state_.next_letter = name;
      return short_option();
    }
    ++state_.index;
    if (found < 0 || is_ambiguous) {
      complain(is_ambiguous ? "option is ambiguous: '" : "unrecognized option '", prefix, name);
      state_.bad_option = 0;
      return '?';
    }
    c_option const& option = names_[found];
    if (name[length] == '=') {
      if (option.has_argument == 0) {
        complain("option doesn't allow an argument: '", prefix, option.name);
        state_.bad_option = option.value;
        return '?';
      }
      state_.argument = name + length + 1;
    } else if (option.has_argument == 1) {
      if (state_.index == argc_) {
        complain("option requires an argument: '", prefix, option.name);
        state_.bad_option = option.value;
        return missing_result_;
      }
      state_.argument = argv_[state_.index++];
    }
    if (name_index_ != nullptr) *name_index_ = found;
    if (option.flag == nullptr) return option.value;
    *option.flag = option.value;
    return 0;
  }

  QUARRY_HD static bool differ(c_option const& a, c_option const& b) {
    return a.has_argument != b.has_argument || a.flag != b.flag || a.value != b.value;
  }

  QUARRY_SLOW void complain(char const* what, char const* first, char const* second = "") const {
    if (is_silent_) return;
    for (char const* part : {static_cast<char const*>(argv_[0]), ": ", what, first, second, "'\n"})
      write_bytes(self(), *standard_file(own_library(), 2), part, length_of(part));
  }
  QUARRY_HD void complain(char const* what, char letter) const {
    char const text[2] = {letter, 0};
    complain(what, text);
  }

  int argc_;
  char** argv_;
  char const* letters_;
  c_option const* names_;
  int* name_index_;
  bool is_long_only_;
  option_state& state_;
  char mode_ = 0;  // '+': stops at the first operand; '-': returns operands as options
  bool is_silent_;
  int missing_result_;
};

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int quarry_c_getopt(int argc, char** argv, char const* letters) {
  return option_reader{argc, argv, letters, nullptr, nullptr, false}.next();
}
QUARRY_HD int quarry_c_getopt_long(int argc, char** argv, char const* letters,
                                   c_option const* names, int* index) {
  return option_reader{argc, argv, letters, names, index, false}.next();
}
QUARRY_HD int quarry_c_getopt_long_only(int argc, char** argv, char const* letters,
                                        c_option const* names, int* index) {
  return option_reader{argc, argv, letters, names, index, true}.next();
}

}  // extern "C"
