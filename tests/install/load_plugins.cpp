// SPDX-License-Identifier: Apache-2.0
// Loads plugins that cannot see each other's symbols (RTLD_LOCAL). Each has a copy of Quarry, and
// so may this program: all copies must be parts of one registry.
// usage: load_plugins <plugin>...
#include "plugin.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool may_fork_beside_threads = false;  // sanitizers do not survive it
#else
constexpr bool may_fork_beside_threads = true;
#endif

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

/// An address of another copy's allocator, or of a pool without a name, is refused.
void check_frees_by_address(plugins const& all) {
  using answer = plugin_calls::answer;
  for (auto const& each : all) {
    void* const address = each.calls->start_named("named");
    for (auto const& other : all) {
      CHECK(other.calls->free_by_address(other.address) == answer::is_foreign);  // a plain pool's
      if (&other == &each) continue;
      // one Quarry for all plugins has its names for all
      auto const wanted = other.calls->has_name("named") ? answer::is_freed : answer::is_foreign;
      CHECK(other.calls->free_by_address(address) == wanted);
      if (wanted == answer::is_freed) break;
    }
    each.calls->stop_named("named");
  }
}

/// Pools that come and go get an id of their own each.
void check_new_pools(plugins const& all) {
  std::set<unsigned> ids;
  for (auto const& each : all) ids.insert(each.calls->make_and_destroy());
  CHECK(ids.size() == all.size());
}

/// A handle is served by the copy that made it, and refused by others.
void check_handles(plugins const& all) {
  std::set<void*> handles;
  for (auto const& each : all) {
    CHECK(handles.insert(each.calls->handle()).second);
    for (auto const& other : all) {
      char const* const invalid_frees = other.calls->use(each.calls->handle());
      if (each.calls->copy() == other.calls->copy()) {
        CHECK(invalid_frees == nullptr);
      } else {
        CHECK(invalid_frees != nullptr);
        CHECK(std::string{invalid_frees}.find("of another copy of Quarry") != std::string::npos);
      }
    }
  }
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

/// Forks while a thread of each plugin is in calls: the child finds all of their locks free.
void check_forks_beside_calls(plugins const& all) {
  std::atomic<bool> is_over{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (auto const& each : all) {
    threads.emplace_back([&] {
      for (; !is_over; ++rounds) {
        CHECK(each.calls->use(each.calls->handle()) == nullptr);
        if (rounds % 256 == 0) (void)each.calls->make_and_destroy();
      }
    });
  }
  while (rounds < 100) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    in_a_child([&] {
      for (auto const& each : all) {
        if (each.calls->use(each.calls->handle()) != nullptr) _exit(1);
        (void)each.calls->make_and_destroy();
      }
    });
  }
  is_over = true;
  for (auto& each : threads) each.join();
}

/// Loads and unloads a plugin while another thread forks.
void check_forks_beside_unloading(plugins const& all, char const* path) {
  std::atomic<bool> is_over{false};
  std::atomic<int> forks{0};
  std::thread forking{[&] {
    for (; !is_over; ++forks) {
      in_a_child([&] {
        for (auto const& each : all) (void)each.calls->make_and_destroy();
      });
    }
  }};
  for (int i = 0; i < 30 || forks < 30; ++i) {
    loaded const passing = load(path);
    (void)passing.calls->make_and_destroy();
    CHECK(dlclose(passing.library) == 0);
  }
  is_over = true;
  forking.join();
}

}  // namespace

int main(int count, char** paths) {
  alarm(120);  // ends who waits for a lock that it has itself
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
  check_frees_by_address(all);
  in_a_child(check_all);
  check_all();
  check_handles(all);
  if (may_fork_beside_threads) check_forks_beside_calls(all);

  // One goes and the others go on, whoever had what they share.
  while (!all.empty()) {
    loaded const freed = all.front();
    all.erase(all.begin());
    freed.calls->stop();
    for (auto const& each : all) CHECK(each.calls->owner_of(freed.address) == 0);
    if (freed.library != nullptr) CHECK(dlclose(freed.library) == 0);
    check_all();
    in_a_child(check_all);
    if (may_fork_beside_threads && freed.library != nullptr)
      check_forks_beside_unloading(all, freed.name.c_str());
  }
}
