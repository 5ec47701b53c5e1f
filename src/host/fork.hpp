// SPDX-License-Identifier: Apache-2.0
// What a fork must find at rest, since the child has none of the other threads that could end what
// they were about to do.
#pragma once

namespace quarry::at_fork {

/// The locks that the registry, the directory and lasting memory have for the whole process, in the
/// order in which they are taken. Each is held while the process is copied.
void lock_directory();
void unlock_directory();
void lock_lasting_memory();
void unlock_lasting_memory();

/// Makes sure that the registry's handlers are there: those of who holds locks while it calls the
/// registry are added after them, so that they are called before.
void watch_registry();

}  // namespace quarry::at_fork
