// SPDX-License-Identifier: Apache-2.0
// Packing in the representation external32: the most significant byte first, and sizes that do not
// depend on the machine.
#include "basic_elements.hpp"
#include "quad.hpp"
#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// How a basic type, or a part of it, is represented.
struct representation {
  std::uint32_t native;    // bytes
  std::uint32_t external;  // bytes
  bool is_signed;          // a number whose sign is kept where the sizes differ
  bool is_long_double;
};

[[nodiscard]] QUARRY_HD representation plain(bytes size) {
  return {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size), false, false};
}

/// A basic type consists of `count` numbers, and an int behind them if it is a pair.
struct basic_form {
  representation number;
  std::uint32_t count;
  bool is_pair;
};

[[nodiscard]] QUARRY_SLOW basic_form form_of(MPI_Datatype basic) {
  constexpr auto long_bytes = static_cast<std::uint32_t>(sizeof(long_double));
  switch (basic) {
    case MPI_LONG:
      return {{8, 4, true, false}, 1, false};
    case MPI_UNSIGNED_LONG:
      return {{8, 4, false, false}, 1, false};
    case MPI_WCHAR:
      return {{4, 2, false, false}, 1, false};
    case MPI_LONG_DOUBLE:
      return {{long_bytes, 16, false, true}, 1, false};
    case MPI_C_LONG_DOUBLE_COMPLEX:
      return {{long_bytes, 16, false, true}, 2, false};
    case MPI_LONG_DOUBLE_INT:
      return {{long_bytes, 16, false, true}, 1, true};
    case MPI_LONG_INT:
      return {{8, 4, true, false}, 1, true};
    case MPI_DOUBLE_INT:
      return {plain(8), 1, true};
    case MPI_SHORT_INT:
      return {plain(2), 1, true};
    case MPI_FLOAT_INT:
    case MPI_2INT:
      return {plain(4), 1, true};
    case MPI_C_COMPLEX:
    case MPI_COMPLEX:
    case MPI_2INTEGER:
    case MPI_2REAL:
      return {plain(4), 2, false};
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_DOUBLE_COMPLEX:
    case MPI_2DOUBLE_PRECISION:
      return {plain(8), 2, false};
    default:
      return {plain(basic_size(basic)), 1, false};
  }
}

/// Converts bytes of a message to the representation or back, from the first to the last.
struct conversion {
  char* native;
  char* external;
  bool is_packing;

  QUARRY_HD void reverse(std::uint32_t size) {
    for (std::uint32_t i = 0; i < size; ++i) {
      if (is_packing) {
        external[i] = native[size - 1 - i];
      } else {
        native[i] = external[size - 1 - i];
      }
    }
  }
  QUARRY_SLOW void convert_long_double(std::uint32_t native_size) {
    long_double number = 0;
    char digits[16];
    if (is_packing) {
      std::memcpy(&number, native, sizeof(number));
      quad const made = to_quad(number);
      std::memcpy(digits, &made.low, 8);
      std::memcpy(digits + 8, &made.high, 8);
      for (int i = 0; i < 16; ++i) external[i] = digits[15 - i];
      return;
    }
    for (int i = 0; i < 16; ++i) digits[i] = external[15 - i];
    quad found{};
    std::memcpy(&found.low, digits, 8);
    std::memcpy(&found.high, digits + 8, 8);
    number = from_quad(found);
    for (std::uint32_t i = 0; i < native_size; ++i) native[i] = 0;  // unused bytes too
    constexpr std::size_t used = sizeof(number) == 16 ? 10 : sizeof(number);
    std::memcpy(native, &number, used);
  }
  QUARRY_HD void convert(representation const& as) {
    if (as.is_long_double) {
      convert_long_double(as.native);
    } else if (as.native == as.external) {
      reverse(as.native);
    } else {
      reverse(as.external);  // the least significant bytes
      bool const is_negative = as.is_signed && (native[as.external - 1] & 0x80) != 0;
      for (std::uint32_t i = as.external; !is_packing && i < as.native; ++i)
        native[i] = static_cast<char>(is_negative ? 0xff : 0);
    }
    native += as.native;
    external += as.external;
  }
  QUARRY_SLOW void convert_all(MPI_Datatype basic, bytes count) {
    basic_form const form = form_of(basic);
    for (bytes i = 0; i < count; ++i) {
      for (std::uint32_t k = 0; k < form.count; ++k) convert(form.number);
      if (form.is_pair) convert(plain(4));
    }
  }
};

/// Converts the bytes of a message.
QUARRY_SLOW void convert(rank_state& rank, MPI_Datatype type, bytes count, conversion along) {
  std::uint32_t const depth = facts_of(rank, type).depth;
  scratch const frames{rank, depth * sizeof(listed_type)};
  list_elements(rank, type, count, reinterpret_cast<listed_type*>(frames.data()),
                [&](MPI_Datatype basic, bytes number) { along.convert_all(basic, number); });
}

[[nodiscard]] QUARRY_HD bool is_external32(char const* name) {
  char const* const wanted = "external32";
  for (int i = 0; i < 11; ++i)
    if (name[i] != wanted[i]) return false;
  return true;
}

/// Checks the arguments of these functions. `size`: the bytes of the elements in external32.
[[nodiscard]] QUARRY_SLOW int check(rank_state& rank, char const* name, int count,
                                    MPI_Datatype type, MPI_Aint room, MPI_Aint position,
                                    char const* function, bytes& size) {
  auto const fails = [&](int code, char const* what, std::int64_t value) {
    return fail(rank, MPI_COMM_WORLD, code, function, what, value);
  };
  if (!is_external32(name)) return fails(MPI_ERR_ARG, "representation (not external32)", name[0]);
  if (count < 0) return fails(MPI_ERR_COUNT, "count", count);
  if (!is_type(rank, type)) return fails(MPI_ERR_TYPE, "datatype", type);
  if (room < 0) return fails(MPI_ERR_ARG, "size", room);
  if (position < 0 || position > room) return fails(MPI_ERR_ARG, "position", position);
  size = static_cast<bytes>(count) * facts_of(rank, type).external;
  if (size > static_cast<bytes>(room - position)) return fails(MPI_ERR_TRUNCATE, "count", count);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Pack_external(char const* representation, void const* input, int count,
                                MPI_Datatype type, void* output, MPI_Aint output_size,
                                MPI_Aint* position) {
  rank_state& rank = self();
  bytes size = 0;
  if (int const error = check(rank, representation, count, type, output_size, *position,
                              "MPI_Pack_external", size))
    return error;
  scratch const packed{rank, static_cast<bytes>(count) * element_size(rank, type)};
  pack(rank, packed.data(), input, static_cast<bytes>(count), type);
  convert(rank, type, static_cast<bytes>(count),
          {packed.data(), static_cast<char*>(output) + *position, true});
  *position += static_cast<MPI_Aint>(size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Unpack_external(char const* representation, void const* input,
                                  MPI_Aint input_size, MPI_Aint* position, void* output, int count,
                                  MPI_Datatype type) {
  rank_state& rank = self();
  bytes size = 0;
  if (int const error = check(rank, representation, count, type, input_size, *position,
                              "MPI_Unpack_external", size))
    return error;
  bytes const native = static_cast<bytes>(count) * element_size(rank, type);
  scratch const packed{rank, native};
  auto* const external = static_cast<char*>(const_cast<void*>(input)) + *position;
  convert(rank, type, static_cast<bytes>(count), {packed.data(), external, false});
  unpack(rank, output, type, packed.data(), native);
  *position += static_cast<MPI_Aint>(size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Pack_external_size(char const* representation, int count, MPI_Datatype type,
                                     MPI_Aint* size) {
  rank_state& rank = self();
  bytes exact = 0;
  if (int const error = check(rank, representation, count, type, 0x7fffffffffffffff, 0,
                              "MPI_Pack_external_size", exact))
    return error;
  *size = static_cast<MPI_Aint>(exact);
  return MPI_SUCCESS;
}

}  // extern "C"
