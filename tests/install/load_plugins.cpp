// SPDX-License-Identifier: Apache-2.0
// Loads plugins that cannot see each other's symbols (RTLD_LOCAL). Each plugin has a copy of
// Quarry, and this program may have a copy. All copies must share one registry.
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

#pragma weak plugin  // the program's own plugin, if it is linked

namespace {

void check(bool holds, char const* condition) {
  if (holds) return;
  std::fprintf(stderr, "check failed: %s\n", condition);
  std::exit(1);
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool may_fork_beside_threads = false;  // sanitizers do not survive such a fork
#else
constexpr bool may_fork_beside_threads = true;
#endif

struct loaded {
  void* library;  // null for the program's own plugin
  plugin_calls const* calls;
  std::string name;
  void* address = nullptr;
};
using plugins = std::vector<loaded>;

loaded load(char const* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) check(false, dlerror());
  void* const symbol = dlsym(library, "plugin");
  check(symbol != nullptr, "the library has plugin()");
  return {library, reinterpret_cast<plugin_calls const* (*)()>(symbol)(), path};
}

void check_ids_and_lookups(plugins const& all) {
  std::set<unsigned> ids;
  for (auto const& plugin_copy : all) {
    unsigned const id = plugin_copy.calls->id();
    CHECK(ids.insert(id).second);
    for (auto const& other : all) {
      CHECK(other.calls->owner_of(plugin_copy.address) == id);
      CHECK(other.calls->owner_of(static_cast<char*>(plugin_copy.address) + 50) == id);
      CHECK(other.calls->lists(id, plugin_copy.name.c_str()));
    }
  }
}

/// Checks that a free of another copy's address, or of a pool without a name, is refused.
void check_frees_by_address(plugins const& all) {
  using answer = plugin_calls::answer;
  for (auto const& plugin_copy : all) {
    void* const address = plugin_copy.calls->start_named("named");
    for (auto const& other : all) {
      CHECK(other.calls->free_by_address(other.address) ==
            answer::is_foreign);  // the address of a pool without a name
      if (&other == &plugin_copy) continue;
      // if all plugins share one Quarry, they share its names
      auto const wanted = other.calls->has_name("named") ? answer::is_freed : answer::is_foreign;
      CHECK(other.calls->free_by_address(address) == wanted);
      if (wanted == answer::is_freed) break;
    }
    plugin_copy.calls->stop_named("named");
  }
}

/// Checks that pools that are made and destroyed have distinct ids.
void check_new_pools(plugins const& all) {
  std::set<unsigned> ids;
  for (auto const& plugin_copy : all) ids.insert(plugin_copy.calls->make_and_destroy());
  CHECK(ids.size() == all.size());
}

/// Checks that the copy that made a handle serves it, and that other copies refuse it.
void check_handles(plugins const& all) {
  std::set<void*> handles;
  for (auto const& plugin_copy : all) {
    CHECK(handles.insert(plugin_copy.calls->handle()).second);
    for (auto const& other : all) {
      char const* const refusal = other.calls->use(plugin_copy.calls->handle());
      if (plugin_copy.calls->copy() == other.calls->copy()) {
        CHECK(refusal == nullptr);
      } else {
        CHECK(refusal != nullptr);
        CHECK(std::string{refusal}.find("of another copy of Quarry") != std::string::npos);
      }
    }
  }
}

void run_in_child(std::function<void()> const& work) {
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

/// Forks while a thread of each plugin makes calls. In the child all locks of the plugins must be
/// free.
void check_forks_beside_calls(plugins const& all) {
  std::atomic<bool> is_over{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (auto const& plugin_copy : all) {
    threads.emplace_back([&] {
      for (; !is_over; ++rounds) {
        CHECK(plugin_copy.calls->use(plugin_copy.calls->handle()) == nullptr);
        if (rounds % 256 == 0) (void)plugin_copy.calls->make_and_destroy();
      }
    });
  }
  while (rounds < 100) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    run_in_child([&] {
      for (auto const& plugin_copy : all) {
        if (plugin_copy.calls->use(plugin_copy.calls->handle()) != nullptr) _exit(1);
        (void)plugin_copy.calls->make_and_destroy();
      }
    });
  }
  is_over = true;
  for (auto& thread : threads) thread.join();
}

/// Loads and unloads a plugin while another thread forks.
void check_forks_beside_unloading(plugins const& all, char const* path) {
  std::atomic<bool> is_over{false};
  std::atomic<int> forks{0};
  std::thread forking{[&] {
    for (; !is_over; ++forks) {
      run_in_child([&] {
        for (auto const& plugin_copy : all) (void)plugin_copy.calls->make_and_destroy();
      });
    }
  }};
  for (int i = 0; i < 30 || forks < 30; ++i) {
    loaded const temporary = load(path);
    (void)temporary.calls->make_and_destroy();
    CHECK(dlclose(temporary.library) == 0);
  }
  is_over = true;
  forking.join();
}

}  // namespace

int main(int count, char** paths) {
  alarm(120);  // ends the program if a thread waits for its own lock
  plugins all;
  if (&plugin != nullptr) all.push_back({nullptr, plugin(), "the program"});
  for (int i = 1; i < count; ++i) all.push_back(load(paths[i]));
  CHECK(all.size() >= 2);
  for (auto& plugin_copy : all) {
    plugin_copy.address = plugin_copy.calls->start(plugin_copy.name.c_str());
    CHECK(plugin_copy.calls->catches());
  }
  auto const check_all = [&] {
    check_ids_and_lookups(all);
    check_new_pools(all);
  };
  check_all();
  check_frees_by_address(all);
  run_in_child(check_all);
  check_all();
  check_handles(all);
  if (may_fork_beside_threads) check_forks_beside_calls(all);

  // Unloads one plugin after the other. The other plugins keep working, whichever plugin owns the
  // shared data.
  while (!all.empty()) {
    loaded const unloaded = all.front();
    all.erase(all.begin());
    unloaded.calls->stop();
    for (auto const& plugin_copy : all) CHECK(plugin_copy.calls->owner_of(unloaded.address) == 0);
    if (unloaded.library != nullptr) CHECK(dlclose(unloaded.library) == 0);
    check_all();
    run_in_child(check_all);
    if (may_fork_beside_threads && unloaded.library != nullptr)
      check_forks_beside_unloading(all, unloaded.name.c_str());
  }
}
