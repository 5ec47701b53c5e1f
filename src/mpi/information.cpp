// SPDX-License-Identifier: Apache-2.0
#include "information.hpp"

#include "format.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

inline constexpr MPI_Info first_info = 0x100;

[[nodiscard]] QUARRY_HD bool are_equal(char const* left, char const* right) {
  while (*left != 0 && *left == *right) ++left, ++right;
  return *left == *right;
}
QUARRY_HD void copy_text(char* to, char const* from, std::uint64_t most) {
  std::uint64_t i = 0;
  for (; i < most && from[i] != 0; ++i) to[i] = from[i];
  to[i] = 0;
}

/// The link to the entry with this key, or to the end of the list.
[[nodiscard]] QUARRY_HD information_entry** find(information& in, char const* key) {
  information_entry** link = &in.first;
  while (*link != nullptr && !are_equal((*link)->key, key)) link = &(*link)->next;
  return link;
}

[[nodiscard]] QUARRY_SLOW char* copy_of_text(char const* text) {
  std::uint64_t const length = length_of(text);
  auto* const copy = static_cast<char*>(allocate(length + 1));
  if (copy != nullptr) copy_text(copy, text, length);
  return copy;
}

/// Sets the key's value; false if the heap has no memory.
[[nodiscard]] QUARRY_SLOW bool set(information& in, char const* key, char const* value) {
  char* const copy = copy_of_text(value);
  if (copy == nullptr) return false;
  information_entry** const link = find(in, key);
  if (*link == nullptr) {
    void* const memory = allocate(sizeof(information_entry));
    if (memory == nullptr) {
      release(copy);
      return false;
    }
    *link = ::new (memory) information_entry{};
    copy_text((*link)->key, key, MPI_MAX_INFO_KEY);
  } else {
    release((*link)->value);
  }
  (*link)->value = copy;
  return true;
}

/// Checks an object and a key. Returns an MPI error code.
QUARRY_SLOW int check(rank_state& rank, MPI_Info handle, char const* key, char const* function) {
  if (information_of(rank, handle) == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_INFO, function, "info", handle);
  if (key == nullptr) return MPI_SUCCESS;
  std::uint64_t const length = length_of(key);
  return length != 0 && length <= MPI_MAX_INFO_KEY
             ? MPI_SUCCESS
             : fail(rank, MPI_COMM_WORLD, MPI_ERR_INFO_KEY, function, "length of the key",
                    static_cast<std::int64_t>(length));
}

/// Gives the object a handle. Frees it if there is no memory for that.
QUARRY_SLOW int publish(rank_state& rank, information* made, MPI_Info* handle,
                        char const* function) {
  std::int32_t const index = made == nullptr ? -1 : free_handle(rank.infos);
  if (index < 0) {
    if (made != nullptr) free_information(made);
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, function, "size", sizeof(information));
  }
  rank.infos.entries[index] = made;
  *handle = first_info + index;
  return MPI_SUCCESS;
}

[[nodiscard]] QUARRY_SLOW information* new_information() {
  void* const memory = allocate(sizeof(information));
  return memory == nullptr ? nullptr : ::new (memory) information{};
}

/// How the program was started; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW information* new_environment() {
  information* const made = new_information();
  char digits[24];
  text_buffer text{digits, sizeof(digits)};
  text.add_number(layout().size);
  text.terminate();
  world const& all = the_world();
  if (made == nullptr ||
      (set(*made, "maxprocs", digits) && set(*made, "command", all.argc > 0 ? all.argv[0] : "") &&
       set(*made, "thread_level", "MPI_THREAD_MULTIPLE")))
    return made;
  free_information(made);
  return nullptr;
}

/// Whether the key is a hint that MPI defines for communicators. Others are ignored.
[[nodiscard]] QUARRY_HD bool is_hint(char const* key) {
  for (char const* known : {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                            "mpi_assert_exact_length", "mpi_assert_allow_overtaking"})
    if (are_equal(key, known)) return true;
  return false;
}

}  // namespace

QUARRY_HD information* information_of(rank_state& rank, MPI_Info handle) {
  if (handle == MPI_INFO_ENV) {
    if (rank.environment == nullptr) rank.environment = new_environment();
    return rank.environment;
  }
  auto const index = static_cast<std::uint32_t>(handle - first_info);
  return handle >= first_info && index < rank.infos.capacity ? rank.infos.entries[index] : nullptr;
}

QUARRY_SLOW information* copy_of(information const& old) {
  information* const copy = new_information();
  if (copy == nullptr) return nullptr;
  for (information_entry const* at = old.first; at != nullptr; at = at->next) {
    if (set(*copy, at->key, at->value)) continue;
    free_information(copy);
    return nullptr;
  }
  return copy;
}

QUARRY_SLOW void free_information(information* freed) {
  while (information_entry* const first = freed->first) {
    freed->first = first->next;
    release(first->value);
    release(first);
  }
  release(freed);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Info_create(MPI_Info* info) {
  return publish(self(), new_information(), info, "MPI_Info_create");
}

QUARRY_HD int MPI_Info_create_env(int, char**, MPI_Info* info) {
  return publish(self(), new_environment(), info, "MPI_Info_create_env");
}

QUARRY_HD int MPI_Info_dup(MPI_Info info, MPI_Info* copy) {
  rank_state& rank = self();
  if (int const error = check(rank, info, nullptr, "MPI_Info_dup")) return error;
  return publish(rank, copy_of(*information_of(rank, info)), copy, "MPI_Info_dup");
}

QUARRY_HD int MPI_Info_free(MPI_Info* info) {
  rank_state& rank = self();
  if (int const error = check(rank, *info, nullptr, "MPI_Info_free")) return error;
  if (*info == MPI_INFO_ENV)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_INFO, "MPI_Info_free", "info", *info);
  free_information(information_of(rank, *info));
  free_entry(rank.infos, *info - first_info);
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Info_set(MPI_Info info, char const* key, char const* value) {
  rank_state& rank = self();
  if (int const error = check(rank, info, key, "MPI_Info_set")) return error;
  std::uint64_t const length = length_of(value);
  if (length > MPI_MAX_INFO_VAL)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_INFO_VALUE, "MPI_Info_set", "length of the value",
                static_cast<std::int64_t>(length));
  return set(*information_of(rank, info), key, value)
             ? MPI_SUCCESS
             : fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "MPI_Info_set", "length of the value",
                    static_cast<std::int64_t>(length));
}

/// `length` is that of `value` without the zero at the end, which has room too.
QUARRY_HD int MPI_Info_get(MPI_Info info, char const* key, int length, char* value, int* flag) {
  rank_state& rank = self();
  if (int const error = check(rank, info, key, "MPI_Info_get")) return error;
  if (length < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Info_get", "length", length);
  information_entry const* const found = *find(*information_of(rank, info), key);
  *flag = found != nullptr;
  if (found != nullptr) copy_text(value, found->value, static_cast<std::uint64_t>(length));
  return MPI_SUCCESS;
}

/// `*room` is the size of `value`, and becomes the size that the whole value needs.
QUARRY_HD int MPI_Info_get_string(MPI_Info info, char const* key, int* room, char* value,
                                  int* flag) {
  rank_state& rank = self();
  if (int const error = check(rank, info, key, "MPI_Info_get_string")) return error;
  if (*room < 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Info_get_string", "length", *room);
  information_entry const* const found = *find(*information_of(rank, info), key);
  *flag = found != nullptr;
  if (found == nullptr) return MPI_SUCCESS;
  if (*room > 0) copy_text(value, found->value, static_cast<std::uint64_t>(*room) - 1);
  *room = static_cast<int>(length_of(found->value)) + 1;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Info_get_valuelen(MPI_Info info, char const* key, int* length, int* flag) {
  rank_state& rank = self();
  if (int const error = check(rank, info, key, "MPI_Info_get_valuelen")) return error;
  information_entry const* const found = *find(*information_of(rank, info), key);
  *flag = found != nullptr;
  if (found != nullptr) *length = static_cast<int>(length_of(found->value));
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Info_get_nkeys(MPI_Info info, int* count) {
  rank_state& rank = self();
  if (int const error = check(rank, info, nullptr, "MPI_Info_get_nkeys")) return error;
  *count = 0;
  for (auto const* at = information_of(rank, info)->first; at != nullptr; at = at->next) ++*count;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Info_get_nthkey(MPI_Info info, int number, char* key) {
  rank_state& rank = self();
  if (int const error = check(rank, info, nullptr, "MPI_Info_get_nthkey")) return error;
  information_entry const* at = information_of(rank, info)->first;
  for (int i = 0; at != nullptr && i < number; ++i) at = at->next;
  if (at == nullptr || number < 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Info_get_nthkey", "number", number);
  copy_text(key, at->key, MPI_MAX_INFO_KEY);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Info_delete(MPI_Info info, char const* key) {
  rank_state& rank = self();
  if (int const error = check(rank, info, key, "MPI_Info_delete")) return error;
  information_entry** const link = find(*information_of(rank, info), key);
  information_entry* const removed = *link;
  if (removed == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_INFO_NOKEY, "MPI_Info_delete", "info", info);
  *link = removed->next;
  release(removed->value);
  release(removed);
  return MPI_SUCCESS;
}

/// Keeps the hints that MPI defines. They change nothing.
QUARRY_HD int MPI_Comm_set_info(MPI_Comm communicator, MPI_Info info) {
  char const* const name = "MPI_Comm_set_info";
  rank_state& rank = self();
  membership* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, name, "communicator", communicator);
  if (int const error = check(rank, info, nullptr, name)) return error;
  membership_extra* const extra = make_extra(rank, *at);
  if (extra != nullptr && extra->hints == nullptr) extra->hints = new_information();
  bool has_memory = extra != nullptr && extra->hints != nullptr;
  for (auto const* each = information_of(rank, info)->first; has_memory && each != nullptr;
       each = each->next)
    if (is_hint(each->key)) has_memory = set(*extra->hints, each->key, each->value);
  return has_memory
             ? MPI_SUCCESS
             : fail(rank, communicator, MPI_ERR_NO_MEM, name, "size", sizeof(membership_extra));
}

/// The program frees the object that it gets.
QUARRY_HD int MPI_Comm_get_info(MPI_Comm communicator, MPI_Info* info) {
  char const* const name = "MPI_Comm_get_info";
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, name, "communicator", communicator);
  membership_extra const* const extra = extra_of(rank, *at);
  bool const has_hints = extra != nullptr && extra->hints != nullptr;
  return publish(rank, has_hints ? copy_of(*extra->hints) : new_information(), info, name);
}

}  // extern "C"
