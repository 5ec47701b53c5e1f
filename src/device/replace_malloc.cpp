// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/replace_malloc.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace quarry::inline QUARRY_ABI {
namespace {

struct known_file {
  file_with_route const* file;
  bool was_set = false;  // if false, there is no route to restore, and perhaps no GPU to query
};

/// `files` is Guarded by: `mutex`. The list changes when the program and its libraries are loaded
/// and unloaded.
struct file_list {
  std::mutex mutex;
  std::vector<known_file> files;
};

file_list& known_files() {
  static file_list list;  // constructed before the first file, so destroyed after the last file
  return list;
}

}  // namespace

file_with_route::file_with_route(backend kind, loader load_route, storer store_route)
    : backend_kind_{kind}, load_{load_route}, store_{store_route} {
  auto& [mutex, files] = known_files();
  std::lock_guard const lock{mutex};
  files.push_back({this});
}

file_with_route::~file_with_route() {
  auto& [mutex, files] = known_files();
  std::lock_guard const lock{mutex};
  std::erase_if(files, [&](known_file const& known) { return known.file == this; });
}

void replace_malloc(heap const& heap) {
  auto& [mutex, files] = known_files();
  std::lock_guard const lock{mutex};
  auto const is_affected = [&](known_file const& known) {
    return known.file->backend_kind() == heap.backend_kind();
  };
  if (std::none_of(files.begin(), files.end(), is_affected)) {
    throw bad_state{
        "replace_malloc: no file of the program includes quarry/device/replace_malloc.cuh for the "
        "heap's backend"};
  }
  malloc_route const route{heap.ref(), heap.region(), heap.region_bytes()};
  // All files can free the heap's allocations before any file can allocate from the heap.
  for (auto const& next : {route.frees_only(), route}) {
    for (auto& known : files) {
      if (!is_affected(known)) continue;
      known.was_set = true;
      known.file->store(next);
    }
  }
}

void restore_malloc() {
  auto& [mutex, files] = known_files();
  std::lock_guard const lock{mutex};
  for (auto const& known : files) {
    if (!known.was_set) continue;
    if (malloc_route const route = known.file->load(); route.allocates())
      known.file->store(route.frees_only());
  }
}

}  // namespace quarry::inline QUARRY_ABI
