// SPDX-License-Identifier: Apache-2.0
#include "attributes.hpp"

#include "types.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

/// A key that the program made. It lives until its handle is freed and no attribute has it.
struct keyval {
  attribute::owner kind;
  std::uint32_t references;
  std::uint32_t is_freed;
  MPI_Comm_copy_attr_function* copy;       // MPI_COMM_NULL_COPY_FN and MPI_COMM_DUP_FN too
  MPI_Comm_delete_attr_function* discard;  // MPI_COMM_NULL_DELETE_FN too
  void* state;
};

namespace {

inline constexpr int first_key = 0x100;

/// The key, also if its handle is freed; null if there is none.
[[nodiscard]] QUARRY_HD keyval* any_key(rank_state& rank, int key) {
  auto const index = static_cast<std::uint32_t>(key - first_key);
  return key >= first_key && index < rank.keyvals.capacity ? rank.keyvals.entries[index] : nullptr;
}
QUARRY_SLOW void drop_key(rank_state& rank, int key) {
  keyval* const used = any_key(rank, key);
  if (--used->references != 0) return;
  free_entry(rank.keyvals, key - first_key);
  release(used);
}

[[nodiscard]] QUARRY_HD bool is_object(rank_state& rank, attribute::owner kind, int object) {
  return kind == attribute::owner::communicator ? member(rank, object) != nullptr
                                                : is_known_type(rank, object);
}

/// The attribute; null if the object has none with this key.
[[nodiscard]] QUARRY_SLOW attribute* find(rank_state& rank, attribute::owner kind, int object,
                                          int key) {
  attribute* at = rank.attributes;
  while (at != nullptr && (at->kind != kind || at->object != object || at->key != key))
    at = at->next;
  return at;
}

/// Adds an attribute; false if the heap has no memory.
[[nodiscard]] QUARRY_SLOW bool attach(rank_state& rank, attribute::owner kind, int object, int key,
                                      void* value) {
  void* const memory = allocate(sizeof(attribute));
  if (memory == nullptr) return false;
  ++any_key(rank, key)->references;
  rank.attributes = ::new (memory) attribute{rank.attributes, kind, object, key, value};
  return true;
}

/// Calls the delete function, then removes the attribute. It stays if the function fails. The
/// function may attach and remove other attributes.
QUARRY_SLOW int detach(rank_state& rank, attribute* removed) {
  keyval const& key = *any_key(rank, removed->key);
  if (key.discard != MPI_COMM_NULL_DELETE_FN)
    if (int const error = key.discard(removed->object, removed->key, removed->value, key.state))
      return error;
  attribute** link = &rank.attributes;
  while (*link != nullptr && *link != removed) link = &(*link)->next;
  if (*link == nullptr) return MPI_SUCCESS;  // the function has removed it
  *link = removed->next;
  drop_key(rank, removed->key);
  release(removed);
  return MPI_SUCCESS;
}

struct key_names {
  char const* object;
  int error;
};
[[nodiscard]] QUARRY_HD key_names names_of(attribute::owner kind) {
  return kind == attribute::owner::communicator ? key_names{"communicator", MPI_ERR_COMM}
                                                : key_names{"datatype", MPI_ERR_TYPE};
}

QUARRY_SLOW int create_key(attribute::owner kind, MPI_Comm_copy_attr_function* copy,
                           MPI_Comm_delete_attr_function* discard, int* key, void* state,
                           char const* function) {
  rank_state& rank = self();
  std::int32_t const index = free_handle(rank.keyvals);
  void* const memory = index < 0 ? nullptr : allocate(sizeof(keyval));
  if (memory == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, function, "size", sizeof(keyval));
  rank.keyvals.entries[index] = ::new (memory) keyval{kind, 1, 0, copy, discard, state};
  *key = first_key + index;
  return MPI_SUCCESS;
}

/// A copy of a freed handle can be freed again while attributes have the key.
QUARRY_SLOW int free_key(attribute::owner kind, int* key, char const* function) {
  rank_state& rank = self();
  keyval* const freed = any_key(rank, *key);
  if (freed == nullptr || freed->kind != kind)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_KEYVAL, function, "key", *key);
  if (freed->is_freed == 0) {
    freed->is_freed = 1;
    drop_key(rank, *key);
  }
  *key = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

/// The communicator whose error handler a fault of the object calls.
[[nodiscard]] QUARRY_HD MPI_Comm handler_of(attribute::owner kind, int object) {
  return kind == attribute::owner::communicator ? object : MPI_COMM_WORLD;
}

/// Checks an object and a key. Returns an MPI error code. Attributes with a freed key can be read
/// and deleted.
QUARRY_SLOW int check(rank_state& rank, attribute::owner kind, int object, int key, bool sets,
                      char const* function) {
  key_names const names = names_of(kind);
  MPI_Comm const reported = handler_of(kind, object);
  if (!is_object(rank, kind, object))
    return fail(rank, reported, names.error, function, names.object, object);
  keyval const* const found = any_key(rank, key);
  if (found == nullptr || found->kind != kind || (sets && found->is_freed != 0))
    return fail(rank, reported, MPI_ERR_KEYVAL, function, "key", key);
  return MPI_SUCCESS;
}

QUARRY_SLOW int set(attribute::owner kind, int object, int key, void* value, char const* function) {
  rank_state& rank = self();
  if (int const error = check(rank, kind, object, key, true, function)) return error;
  attribute* old = find(rank, kind, object, key);
  if (old != nullptr) {  // its delete function is called as if it were deleted
    keyval const& of = *any_key(rank, key);
    if (of.discard != MPI_COMM_NULL_DELETE_FN)
      if (int const error = of.discard(object, key, old->value, of.state))
        return fail(rank, handler_of(kind, object), error, function, "key", key);
    old = find(rank, kind, object, key);  // the function may have removed it
  }
  if (old != nullptr) {
    old->value = value;
    return MPI_SUCCESS;
  }
  return attach(rank, kind, object, key, value)
             ? MPI_SUCCESS
             : fail(rank, handler_of(kind, object), MPI_ERR_NO_MEM, function, "size",
                    sizeof(attribute));
}

QUARRY_SLOW int get(attribute::owner kind, int object, int key, void* result, int* flag,
                    char const* function) {
  rank_state& rank = self();
  if (int const error = check(rank, kind, object, key, false, function)) return error;
  attribute const* const found = find(rank, kind, object, key);
  *flag = found != nullptr;
  if (found != nullptr) *static_cast<void**>(result) = found->value;
  return MPI_SUCCESS;
}

QUARRY_SLOW int remove(attribute::owner kind, int object, int key, char const* function) {
  rank_state& rank = self();
  if (int const error = check(rank, kind, object, key, false, function)) return error;
  attribute* const found = find(rank, kind, object, key);
  if (found == nullptr)
    return fail(rank, handler_of(kind, object), MPI_ERR_KEYVAL, function, "key", key);
  int const error = detach(rank, found);
  return error == MPI_SUCCESS ? error
                              : fail(rank, handler_of(kind, object), error, function, "key", key);
}

/// The value of a key that mpi.h names, in memory of the rank; null if there is no such key.
[[nodiscard]] QUARRY_HD int* predefined(rank_state& rank, int key) {
  int const index = key - MPI_TAG_UB;
  if (index < 0 || index > MPI_LASTUSEDCODE - MPI_TAG_UB) return nullptr;
  int const values[] = {0x7fffffff,
                        MPI_PROC_NULL,
                        MPI_ANY_SOURCE,        // all ranks can use files
                        spans_gpus() ? 0 : 1,  // each GPU has a clock
                        static_cast<int>(layout().size),
                        0,
                        rank.last_error_code != 0 ? rank.last_error_code : MPI_ERR_LASTCODE};
  rank.attribute_values[index] = values[index];
  return &rank.attribute_values[index];
}

}  // namespace

QUARRY_SLOW int copy_attributes(rank_state& rank, attribute::owner kind, int from, int to) {
  // The list has the youngest first: count, then find the oldest that is left.
  std::uint32_t count = 0;
  for (attribute const* at = rank.attributes; at != nullptr; at = at->next)
    if (at->kind == kind && at->object == from) ++count;
  for (; count != 0; --count) {
    attribute const* old = rank.attributes;
    for (std::uint32_t seen = 0; old != nullptr; old = old->next)
      if (old->kind == kind && old->object == from && ++seen == count) break;
    if (old == nullptr) continue;  // a copy function has removed attributes
    keyval const& key = *any_key(rank, old->key);
    if (key.copy == MPI_COMM_NULL_COPY_FN) continue;
    void* value = old->value;
    int flag = 1;
    int const name = old->key;
    if (key.copy != MPI_COMM_DUP_FN)
      if (int const error = key.copy(from, name, key.state, old->value, &value, &flag))
        return error;
    if (flag != 0 && !attach(rank, kind, to, name, value)) return MPI_ERR_NO_MEM;
  }
  return MPI_SUCCESS;
}

QUARRY_SLOW int delete_attributes(rank_state& rank, attribute::owner kind, int object) {
  for (;;) {
    attribute* at = rank.attributes;
    while (at != nullptr && (at->kind != kind || at->object != object)) at = at->next;
    if (at == nullptr) return MPI_SUCCESS;
    if (int const error = detach(rank, at)) return error;
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function* copy,
                                     MPI_Comm_delete_attr_function* discard, int* key,
                                     void* state) {
  return create_key(attribute::owner::communicator, copy, discard, key, state,
                    "MPI_Comm_create_keyval");
}
QUARRY_HD int MPI_Keyval_create(MPI_Copy_function* copy, MPI_Delete_function* discard, int* key,
                                void* state) {
  return MPI_Comm_create_keyval(copy, discard, key, state);
}
QUARRY_HD int MPI_Comm_free_keyval(int* key) {
  return free_key(attribute::owner::communicator, key, "MPI_Comm_free_keyval");
}
QUARRY_HD int MPI_Keyval_free(int* key) { return MPI_Comm_free_keyval(key); }

QUARRY_HD int MPI_Comm_set_attr(MPI_Comm communicator, int key, void* value) {
  return set(attribute::owner::communicator, communicator, key, value, "MPI_Comm_set_attr");
}
QUARRY_HD int MPI_Attr_put(MPI_Comm communicator, int key, void* value) {
  return MPI_Comm_set_attr(communicator, key, value);
}
QUARRY_HD int MPI_Comm_get_attr(MPI_Comm communicator, int key, void* value, int* flag) {
  rank_state& rank = self();
  if (int* const known = predefined(rank, key); known != nullptr && member(rank, communicator)) {
    *static_cast<void**>(value) = known;
    *flag = 1;
    return MPI_SUCCESS;
  }
  return get(attribute::owner::communicator, communicator, key, value, flag, "MPI_Comm_get_attr");
}
QUARRY_HD int MPI_Attr_get(MPI_Comm communicator, int key, void* value, int* flag) {
  return MPI_Comm_get_attr(communicator, key, value, flag);
}
QUARRY_HD int MPI_Comm_delete_attr(MPI_Comm communicator, int key) {
  return remove(attribute::owner::communicator, communicator, key, "MPI_Comm_delete_attr");
}
QUARRY_HD int MPI_Attr_delete(MPI_Comm communicator, int key) {
  return MPI_Comm_delete_attr(communicator, key);
}

QUARRY_HD int MPI_Type_create_keyval(MPI_Type_copy_attr_function* copy,
                                     MPI_Type_delete_attr_function* discard, int* key,
                                     void* state) {
  return create_key(attribute::owner::type, copy, discard, key, state, "MPI_Type_create_keyval");
}
QUARRY_HD int MPI_Type_free_keyval(int* key) {
  return free_key(attribute::owner::type, key, "MPI_Type_free_keyval");
}
QUARRY_HD int MPI_Type_set_attr(MPI_Datatype type, int key, void* value) {
  return set(attribute::owner::type, type, key, value, "MPI_Type_set_attr");
}
QUARRY_HD int MPI_Type_get_attr(MPI_Datatype type, int key, void* value, int* flag) {
  return get(attribute::owner::type, type, key, value, flag, "MPI_Type_get_attr");
}
QUARRY_HD int MPI_Type_delete_attr(MPI_Datatype type, int key) {
  return remove(attribute::owner::type, type, key, "MPI_Type_delete_attr");
}

}  // extern "C"
