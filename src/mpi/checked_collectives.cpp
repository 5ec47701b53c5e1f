// SPDX-License-Identifier: Apache-2.0
// MPI's collective operations in programs that quarry-mpicc --check made.
#include "checks.hpp"
#include "reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The type if it is predefined; else -1.
[[nodiscard]] QUARRY_HD std::int64_t basic(MPI_Datatype type) { return is_basic(type) ? type : -1; }
[[nodiscard]] QUARRY_HD std::int64_t predefined(MPI_Op op) { return op < first_user_op ? op : -1; }
[[nodiscard]] QUARRY_HD std::int64_t size_of(int count, MPI_Datatype type) {
  return count * static_cast<std::int64_t>(element_size(self(), type));
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int quarry_check_MPI_Barrier(MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Barrier"});
  return MPI_Barrier(communicator);
}
QUARRY_HD int quarry_check_MPI_Bcast(void* data, int count, MPI_Datatype type, int root,
                                     MPI_Comm communicator) {
  check_collective(
      communicator,
      {.name = "MPI_Bcast", .root = root, .type = basic(type), .size = size_of(count, type)});
  return MPI_Bcast(data, count, type, root, communicator);
}
QUARRY_HD int quarry_check_MPI_Reduce(void const* sent, void* received, int count,
                                      MPI_Datatype type, MPI_Op op, int root,
                                      MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Reduce",
                                  .root = root,
                                  .op = predefined(op),
                                  .type = basic(type),
                                  .size = size_of(count, type)});
  return MPI_Reduce(sent, received, count, type, op, root, communicator);
}
QUARRY_HD int quarry_check_MPI_Allreduce(void const* sent, void* received, int count,
                                         MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Allreduce",
                                  .op = predefined(op),
                                  .type = basic(type),
                                  .size = size_of(count, type)});
  return MPI_Allreduce(sent, received, count, type, op, communicator);
}
QUARRY_HD int quarry_check_MPI_Scan(void const* sent, void* received, int count, MPI_Datatype type,
                                    MPI_Op op, MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Scan",
                                  .op = predefined(op),
                                  .type = basic(type),
                                  .size = size_of(count, type)});
  return MPI_Scan(sent, received, count, type, op, communicator);
}
QUARRY_HD int quarry_check_MPI_Exscan(void const* sent, void* received, int count,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Exscan",
                                  .op = predefined(op),
                                  .type = basic(type),
                                  .size = size_of(count, type)});
  return MPI_Exscan(sent, received, count, type, op, communicator);
}
QUARRY_HD int quarry_check_MPI_Gather(void const* sent, int sent_count, MPI_Datatype sent_type,
                                      void* received, int received_count,
                                      MPI_Datatype received_type, int root, MPI_Comm communicator) {
  check_collective(communicator,
                   {.name = "MPI_Gather",
                    .root = root,
                    .size = sent == MPI_IN_PLACE ? size_of(received_count, received_type)
                                                 : size_of(sent_count, sent_type)});
  return MPI_Gather(sent, sent_count, sent_type, received, received_count, received_type, root,
                    communicator);
}
QUARRY_HD int quarry_check_MPI_Scatter(void const* sent, int sent_count, MPI_Datatype sent_type,
                                       void* received, int received_count,
                                       MPI_Datatype received_type, int root,
                                       MPI_Comm communicator) {
  check_collective(communicator,
                   {.name = "MPI_Scatter",
                    .root = root,
                    .size = received == MPI_IN_PLACE ? size_of(sent_count, sent_type)
                                                     : size_of(received_count, received_type)});
  return MPI_Scatter(sent, sent_count, sent_type, received, received_count, received_type, root,
                     communicator);
}
QUARRY_HD int quarry_check_MPI_Gatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                       void* received, int const* received_counts,
                                       int const* displacements, MPI_Datatype received_type,
                                       int root, MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Gatherv", .root = root});
  return MPI_Gatherv(sent, sent_count, sent_type, received, received_counts, displacements,
                     received_type, root, communicator);
}
QUARRY_HD int quarry_check_MPI_Scatterv(void const* sent, int const* sent_counts,
                                        int const* displacements, MPI_Datatype sent_type,
                                        void* received, int received_count,
                                        MPI_Datatype received_type, int root,
                                        MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Scatterv", .root = root});
  return MPI_Scatterv(sent, sent_counts, displacements, sent_type, received, received_count,
                      received_type, root, communicator);
}
QUARRY_HD int quarry_check_MPI_Allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                                         void* received, int received_count,
                                         MPI_Datatype received_type, MPI_Comm communicator) {
  check_collective(communicator,
                   {.name = "MPI_Allgather", .size = size_of(received_count, received_type)});
  return MPI_Allgather(sent, sent_count, sent_type, received, received_count, received_type,
                       communicator);
}
QUARRY_HD int quarry_check_MPI_Alltoall(void const* sent, int sent_count, MPI_Datatype sent_type,
                                        void* received, int received_count,
                                        MPI_Datatype received_type, MPI_Comm communicator) {
  check_collective(communicator,
                   {.name = "MPI_Alltoall", .size = size_of(received_count, received_type)});
  return MPI_Alltoall(sent, sent_count, sent_type, received, received_count, received_type,
                      communicator);
}
QUARRY_HD int quarry_check_MPI_Allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                          void* received, int const* received_counts,
                                          int const* displacements, MPI_Datatype received_type,
                                          MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Allgatherv"});
  return MPI_Allgatherv(sent, sent_count, sent_type, received, received_counts, displacements,
                        received_type, communicator);
}
QUARRY_HD int quarry_check_MPI_Alltoallv(void const* sent, int const* sent_counts,
                                         int const* sent_displacements, MPI_Datatype sent_type,
                                         void* received, int const* received_counts,
                                         int const* received_displacements,
                                         MPI_Datatype received_type, MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Alltoallv"});
  return MPI_Alltoallv(sent, sent_counts, sent_displacements, sent_type, received, received_counts,
                       received_displacements, received_type, communicator);
}

}  // extern "C"
