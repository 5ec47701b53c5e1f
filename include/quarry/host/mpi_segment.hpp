// SPDX-License-Identifier: Apache-2.0
// A shared segment for the ranks of an MPI program that run on one node. Needs mpi.h, so no other
// header includes this one. The program links MPI; Quarry itself does not.
#pragma once

#include "quarry/host/resources/shared_resource.hpp"

#include <mpi.h>

#include <exception>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// A communicator of the ranks that run on this rank's node.
class node_communicator {
 public:
  /// Collective over `communicator`, which is split by nodes. Throws `bad_argument` for
  /// MPI_COMM_NULL, and `resource_failed` if MPI is not initialised or returns an error. The error
  /// handler of `communicator` handles an error of the split; MPI's default handler ends the
  /// program. The new communicator has the handler MPI_ERRORS_RETURN.
  explicit node_communicator(MPI_Comm communicator) {
    int is_initialised = 0, is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    if (is_initialised == 0 || is_finalised != 0)
      throw resource_failed{"node_communicator",
                            "MPI is not initialised, or it is already finalised"};
    if (communicator == MPI_COMM_NULL)
      throw bad_argument{"node_communicator: the communicator is MPI_COMM_NULL"};
    check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &handle_),
          "MPI_Comm_split_type");
    MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(handle_, &rank_);
    MPI_Comm_size(handle_, &size_);
  }
  node_communicator(node_communicator const&) = delete;
  node_communicator& operator=(node_communicator const&) = delete;
  /// Collective over the ranks of the node, unless MPI is finalised.
  ~node_communicator() {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    if (is_finalised == 0 && handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
  }

  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Collective: waits for all ranks of the node. Throws `resource_failed` if MPI returns an error.
  void wait_for_all() const { check(MPI_Barrier(handle_), "MPI_Barrier"); }
  /// Collective: returns whether `vote` is true on all ranks of the node. Throws `resource_failed`.
  [[nodiscard]] bool agree(bool vote) const {
    int const own = vote ? 1 : 0;
    int minimum = 0;
    check(MPI_Allreduce(&own, &minimum, 1, MPI_INT, MPI_MIN, handle_), "MPI_Allreduce");
    return minimum == 1;
  }

 private:
  static void check(int status, char const* call) {
    if (status == MPI_SUCCESS) return;
    char why[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(status, why, &length);
    throw resource_failed{call, std::string(why, static_cast<std::size_t>(length))};
  }

  MPI_Comm handle_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

/// A segment that the ranks of a node share, and their communicator. Each node of the communicator
/// has one segment.
///
/// All ranks of the node find the same memory by its name (`resource().allocate(name, size)`) or by
/// its offset. Its address differs between ranks. The segment is removed when the last rank has
/// closed it.
class mpi_segment {
 public:
  /// Collective over `communicator`. On each node rank 0 makes the segment; then the others open it
  /// with the same name, and with the same size or 0. For names and sizes see `shared_resource`.
  /// Throws `bad_argument` if another program, another communicator or this process has the
  /// segment open on the node. Reuses a segment that killed processes left. If a rank fails, it
  /// throws `bad_argument`, `out_of_memory` or `resource_failed`. The other ranks of its node then
  /// throw `resource_failed`, so no rank waits forever.
  mpi_segment(MPI_Comm communicator, std::string const& name, bytes size) : node_{communicator} {
    std::exception_ptr failure;
    auto const open = [&] {
      try {
        resource_.emplace(name, size);
      } catch (...) {
        failure = std::current_exception();
      }
    };
    if (node_.rank() == 0) {
      open();
      // A process that opens the segment from now on sees this rank.
      if (failure == nullptr && resource_->counts().processes != 1) {
        resource_.reset();
        failure = std::make_exception_ptr(
            bad_argument{"mpi_segment: " + name +
                         " is in use on this node; use another name for each program and "
                         "communicator"});
      }
    }
    bool is_open = node_.agree(node_.rank() != 0 || failure == nullptr);
    if (is_open && node_.rank() != 0) open();
    if (is_open) is_open = node_.agree(failure == nullptr);
    if (failure != nullptr) std::rethrow_exception(failure);
    if (!is_open)
      throw resource_failed{"mpi_segment " + name, "another rank of this node could not open it"};
  }

  [[nodiscard]] shared_resource& resource() { return *resource_; }
  /// The ranks that share the segment.
  [[nodiscard]] node_communicator const& node() const { return node_; }

 private:
  node_communicator node_;
  std::optional<shared_resource> resource_;
};

}  // namespace quarry::inline QUARRY_ABI
