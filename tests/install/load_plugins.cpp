// SPDX-License-Identifier: Apache-2.0
// Loads plugins that cannot see each other's symbols (RTLD_LOCAL). Each has a copy of Quarry, and
// so may this program: all copies must be parts of one registry.
// usage: load_plugins <plugin>...
#include "plugin.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak plugin  // the program's own, if it is linked

namespace {

void check(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__)

struct loaded {
  void* library;  // null for the program's own
  plugin_calls const* calls;
  std::string name;
  void* address = nullptr;
};
using plugins = std::vector<loaded>;

loaded load(char const* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) check(false, dlerror());
  void* const symbol = dlsym(library, "plugin");
  check(symbol != nullptr, "it has plugin()");
  return {library, reinterpret_cast<plugin_calls const* (*)()>(symbol)(), path};
}

void check_ids_and_lookups(plugins const& all) {
  std::set<unsigned> ids;
  for (auto const& each : all) {
    unsigned const id = each.calls->id();
    CHECK(ids.insert(id).second);
    for (auto const& other : all) {
      CHECK(other.calls->owner_of(each.address) == id);
      CHECK(other.calls->owner_of(static_cast<char*>(each.address) + 50) == id);
      CHECK(other.calls->lists(id, each.name.c_str()));
    }
  }
}

/// Pools that come and go get an id of their own each.
void check_new_pools(plugins const& all) {
  std::set<unsigned> ids;
  for (auto const& each : all) ids.insert(each.calls->make_and_destroy());
  CHECK(ids.size() == all.size());
}

void in_a_child(std::function<void()> const& work) {
  pid_t const child = fork();
  CHECK(child != -1);
  if (child == 0) {
    alarm(30);
    work();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int count, char** paths) {
  alarm(60);  // ends who waits for a lock that it has itself
  plugins all;
  if (&plugin != nullptr) all.push_back({nullptr, plugin(), "the program"});
  for (int i = 1; i < count; ++i) all.push_back(load(paths[i]));
  CHECK(all.size() >= 2);
  for (auto& each : all) {
    each.address = each.calls->start(each.name.c_str());
    CHECK(each.calls->catches());
  }
  auto const check_all = [&] {
    check_ids_and_lookups(all);
    check_new_pools(all);
  };
  check_all();
  in_a_child(check_all);
  check_all();

  // One goes and the others go on, whoever had what they share.
  while (!all.empty()) {
    loaded const gone = all.front();
    all.erase(all.begin());
    gone.calls->stop();
    for (auto const& each : all) CHECK(each.calls->owner_of(gone.address) == 0);
    if (gone.library != nullptr) CHECK(dlclose(gone.library) == 0);
    check_all();
    in_a_child(check_all);
  }
}
