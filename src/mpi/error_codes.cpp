// SPDX-License-Identifier: Apache-2.0
// Error codes and classes: their texts, and those that the program adds.
#include "format.hpp"
#include "handles.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

/// An error code that the program has added. It is a class if it is the code of itself.
struct added_error {
  int error_class;
  char* text;  // null: none
};

namespace {

inline constexpr int first_added = MPI_ERR_LASTCODE + 1;

[[nodiscard]] QUARRY_HD added_error* added(rank_state& rank, int code) {
  auto const index = static_cast<std::uint32_t>(code - first_added);
  return code >= first_added && index < rank.errors.capacity ? rank.errors.entries[index] : nullptr;
}

/// Adds a code of `error_class`; the code is a new class if that is 0. Returns an MPI error code.
QUARRY_SLOW int add_error(int error_class, int* code, char const* function) {
  rank_state& rank = self();
  std::int32_t const index = free_handle(rank.errors);
  void* const memory = index < 0 ? nullptr : allocate(sizeof(added_error));
  if (memory == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, function, "size", sizeof(added_error));
  *code = first_added + index;
  rank.errors.entries[index] =
      ::new (memory) added_error{error_class != 0 ? error_class : *code, nullptr};
  if (*code > rank.last_error_code) rank.last_error_code = *code;
  return MPI_SUCCESS;
}

}  // namespace

QUARRY_SLOW char const* error_text(rank_state& rank, int code) {
  if (added_error const* const own = added(rank, code))
    return own->text != nullptr ? own->text : "";
  switch (code) {
    case MPI_SUCCESS:
      return "no error";
    case MPI_ERR_BUFFER:
      return "the buffer is missing or too small, or one is attached already";
    case MPI_ERR_COUNT:
      return "invalid count";
    case MPI_ERR_TYPE:
      return "invalid datatype";
    case MPI_ERR_TAG:
      return "invalid tag";
    case MPI_ERR_COMM:
      return "invalid communicator";
    case MPI_ERR_RANK:
      return "there is no such rank in the communicator";
    case MPI_ERR_REQUEST:
      return "invalid request";
    case MPI_ERR_ROOT:
      return "there is no such root in the communicator";
    case MPI_ERR_GROUP:
      return "invalid group";
    case MPI_ERR_OP:
      return "the operation does not exist or does not accept the datatype";
    case MPI_ERR_TOPOLOGY:
      return "the communicator has no such topology";
    case MPI_ERR_DIMS:
      return "invalid dimensions";
    case MPI_ERR_ARG:
      return "invalid argument";
    case MPI_ERR_TRUNCATE:
      return "the message is longer than the buffer";
    case MPI_ERR_OTHER:
      return "an error of another kind";
    case MPI_ERR_INTERN:
      return "an internal error of MPI";
    case MPI_ERR_IN_STATUS:
      return "the statuses have the errors";
    case MPI_ERR_PENDING:
      return "the operation is neither done nor failed";
    case MPI_ERR_NO_MEM:
      return "the heap has no memory; run with a larger --heap";
    case MPI_ERR_KEYVAL:
      return "invalid key of attributes, or no attribute with this key";
    case MPI_ERR_INFO:
      return "invalid info object";
    case MPI_ERR_INFO_KEY:
      return "a key of info has 1 to 255 characters";
    case MPI_ERR_INFO_VALUE:
      return "a value of info has at most 1024 characters";
    case MPI_ERR_INFO_NOKEY:
      return "the info object has no such key";
    case MPI_ERR_ERRHANDLER:
      return "invalid error handler";
    case MPI_ERR_WIN:
      return "invalid window";
    case MPI_ERR_BASE:
      return "invalid base address of a window";
    case MPI_ERR_SIZE:
      return "invalid size of a window";
    case MPI_ERR_DISP:
      return "invalid displacement";
    case MPI_ERR_LOCKTYPE:
      return "invalid kind of lock";
    case MPI_ERR_ASSERT:
      return "invalid assertion";
    case MPI_ERR_RMA_CONFLICT:
      return "conflicting accesses to a window";
    case MPI_ERR_RMA_SYNC:
      return "wrong synchronisation of a window";
    case MPI_ERR_RMA_RANGE:
      return "the memory is not part of the window";
    case MPI_ERR_RMA_ATTACH:
      return "the memory cannot be attached";
    case MPI_ERR_RMA_SHARED:
      return "the memory cannot be shared";
    case MPI_ERR_RMA_FLAVOR:
      return "the window has another flavour";
    case MPI_ERR_SPAWN:
      return "processes could not be started";
    case MPI_ERR_PORT:
      return "invalid port";
    case MPI_ERR_SERVICE:
      return "invalid service";
    case MPI_ERR_NAME:
      return "invalid service name";
    case MPI_ERR_FILE:
      return "invalid file";
    case MPI_ERR_ACCESS:
      return "the file may not be accessed";
    case MPI_ERR_AMODE:
      return "invalid access mode";
    case MPI_ERR_BAD_FILE:
      return "invalid file name";
    case MPI_ERR_CONVERSION:
      return "a data conversion function failed";
    case MPI_ERR_DUP_DATAREP:
      return "the data representation exists";
    case MPI_ERR_FILE_EXISTS:
      return "the file exists";
    case MPI_ERR_FILE_IN_USE:
      return "the file is in use";
    case MPI_ERR_IO:
      return "an error of input or output";
    case MPI_ERR_NO_SPACE:
      return "there is no space for the file";
    case MPI_ERR_NO_SUCH_FILE:
      return "there is no such file";
    case MPI_ERR_NOT_SAME:
      return "the ranks gave different arguments";
    case MPI_ERR_QUOTA:
      return "the quota is exceeded";
    case MPI_ERR_READ_ONLY:
      return "the file is read-only";
    case MPI_ERR_UNSUPPORTED_DATAREP:
      return "the data representation is not supported";
    case MPI_ERR_UNSUPPORTED_OPERATION:
      return "the operation is not supported";
    case MPI_ERR_PROC_ABORTED:
      return "a peer has ended early";
    case MPI_ERR_SESSION:
      return "invalid session";
    case MPI_ERR_VALUE_TOO_LARGE:
      return "the value is too large for its type";
    default:
      return "unknown error";
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Error_class(int code, int* error_class) {
  if (added_error const* const own = added(self(), code)) {
    *error_class = own->error_class;
  } else {
    *error_class = code >= 0 && code <= MPI_ERR_LASTCODE ? code : MPI_ERR_UNKNOWN;
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Error_string(int code, char* result, int* length) {
  text_buffer text{result, MPI_MAX_ERROR_STRING};
  text.add(error_text(self(), code));
  text.terminate();
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Add_error_class(int* error_class) {
  return add_error(0, error_class, "MPI_Add_error_class");
}

QUARRY_HD int MPI_Add_error_code(int error_class, int* code) {
  rank_state& rank = self();
  added_error const* const own = added(rank, error_class);
  bool const is_class = own != nullptr ? own->error_class == error_class
                                       : error_class > 0 && error_class <= MPI_ERR_LASTCODE;
  return is_class ? add_error(error_class, code, "MPI_Add_error_code")
                  : fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Add_error_code", "error class",
                         error_class);
}

QUARRY_HD int MPI_Add_error_string(int code, char const* text) {
  char const* const name = "MPI_Add_error_string";
  rank_state& rank = self();
  added_error* const own = added(rank, code);
  if (own == nullptr) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "code", code);
  std::uint32_t length = 0;
  while (text[length] != 0 && length < MPI_MAX_ERROR_STRING) ++length;
  if (length == MPI_MAX_ERROR_STRING)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "length of at least", length);
  auto* const copy = static_cast<char*>(allocate(length + 1));
  if (copy == nullptr) return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, name, "size", length + 1);
  for (std::uint32_t i = 0; i <= length; ++i) copy[i] = text[i];
  if (own->text != nullptr) release(own->text);
  own->text = copy;
  return MPI_SUCCESS;
}

}  // extern "C"
