// SPDX-License-Identifier: Apache-2.0
// The arguments of MPI's collective functions as a `collective_call`.
#pragma once

#include "scheduled_collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline part_buffer parts(void const* data, int count, MPI_Datatype type) {
  return {const_cast<void*>(data), count, type};
}
[[nodiscard]] QUARRY_HD inline part_buffer parts(void const* data, int const* counts,
                                                 int const* displacements, MPI_Datatype type) {
  return {const_cast<void*>(data), 0, type, counts, displacements};
}
[[nodiscard]] QUARRY_HD inline part_buffer parts(void const* data, int const* counts,
                                                 int const* displacements,
                                                 MPI_Datatype const* types) {
  return {const_cast<void*>(data), 0, MPI_BYTE, counts, displacements, types};
}

[[nodiscard]] QUARRY_HD inline collective_call barrier_call() {
  return {operation::barrier, {}, {}};
}
[[nodiscard]] QUARRY_HD inline collective_call bcast_call(void* data, int count, MPI_Datatype type,
                                                          int root) {
  return {operation::bcast, {}, parts(data, count, type), root};
}
[[nodiscard]] QUARRY_HD inline collective_call reduce_call(void const* sent, void* received,
                                                           int count, MPI_Datatype type, MPI_Op op,
                                                           int root) {
  return {operation::reduce, parts(sent, count, type), parts(received, count, type), root, op};
}
[[nodiscard]] QUARRY_HD inline collective_call allreduce_call(void const* sent, void* received,
                                                              int count, MPI_Datatype type,
                                                              MPI_Op op) {
  return {operation::allreduce, parts(sent, count, type), parts(received, count, type), 0, op};
}
[[nodiscard]] QUARRY_HD inline collective_call gather_call(void const* sent, int sent_count,
                                                           MPI_Datatype sent_type, void* received,
                                                           int received_count,
                                                           MPI_Datatype received_type, int root) {
  return {operation::gather, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type), root};
}
[[nodiscard]] QUARRY_HD inline collective_call gatherv_call(void const* sent, int sent_count,
                                                            MPI_Datatype sent_type, void* received,
                                                            int const* received_counts,
                                                            int const* displacements,
                                                            MPI_Datatype received_type, int root) {
  return {operation::gatherv, parts(sent, sent_count, sent_type),
          parts(received, received_counts, displacements, received_type), root};
}
[[nodiscard]] QUARRY_HD inline collective_call scatter_call(void const* sent, int sent_count,
                                                            MPI_Datatype sent_type, void* received,
                                                            int received_count,
                                                            MPI_Datatype received_type, int root) {
  return {operation::scatter, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type), root};
}
[[nodiscard]] QUARRY_HD inline collective_call scatterv_call(
    void const* sent, int const* sent_counts, int const* displacements, MPI_Datatype sent_type,
    void* received, int received_count, MPI_Datatype received_type, int root) {
  return {operation::scatterv, parts(sent, sent_counts, displacements, sent_type),
          parts(received, received_count, received_type), root};
}
[[nodiscard]] QUARRY_HD inline collective_call allgather_call(void const* sent, int sent_count,
                                                              MPI_Datatype sent_type,
                                                              void* received, int received_count,
                                                              MPI_Datatype received_type) {
  return {operation::allgather, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call allgatherv_call(
    void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
    int const* received_counts, int const* displacements, MPI_Datatype received_type) {
  return {operation::allgatherv, parts(sent, sent_count, sent_type),
          parts(received, received_counts, displacements, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call alltoall_call(void const* sent, int sent_count,
                                                             MPI_Datatype sent_type, void* received,
                                                             int received_count,
                                                             MPI_Datatype received_type) {
  return {operation::alltoall, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call alltoallv_call(
    void const* sent, int const* sent_counts, int const* sent_displacements, MPI_Datatype sent_type,
    void* received, int const* received_counts, int const* received_displacements,
    MPI_Datatype received_type) {
  return {operation::alltoallv, parts(sent, sent_counts, sent_displacements, sent_type),
          parts(received, received_counts, received_displacements, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call alltoallw_call(
    void const* sent, int const* sent_counts, int const* sent_displacements,
    MPI_Datatype const* sent_types, void* received, int const* received_counts,
    int const* received_displacements, MPI_Datatype const* received_types) {
  return {operation::alltoallw, parts(sent, sent_counts, sent_displacements, sent_types),
          parts(received, received_counts, received_displacements, received_types)};
}
[[nodiscard]] QUARRY_HD inline collective_call reduce_scatter_call(void const* sent, void* received,
                                                                   int const* counts,
                                                                   MPI_Datatype type, MPI_Op op) {
  return {operation::reduce_scatter, parts(sent, 0, type), parts(received, counts, nullptr, type),
          0, op};
}
[[nodiscard]] QUARRY_HD inline collective_call reduce_scatter_block_call(void const* sent,
                                                                         void* received, int count,
                                                                         MPI_Datatype type,
                                                                         MPI_Op op) {
  return {operation::reduce_scatter_block, parts(sent, 0, type), parts(received, count, type), 0,
          op};
}
[[nodiscard]] QUARRY_HD inline collective_call scan_call(void const* sent, void* received,
                                                         int count, MPI_Datatype type, MPI_Op op) {
  return {operation::scan, parts(sent, count, type), parts(received, count, type), 0, op};
}
[[nodiscard]] QUARRY_HD inline collective_call exscan_call(void const* sent, void* received,
                                                           int count, MPI_Datatype type,
                                                           MPI_Op op) {
  return {operation::exscan, parts(sent, count, type), parts(received, count, type), 0, op};
}

[[nodiscard]] QUARRY_HD inline part_buffer parts(void const* data, int const* counts,
                                                 MPI_Aint const* offsets,
                                                 MPI_Datatype const* types) {
  return {const_cast<void*>(data), 0, MPI_BYTE, counts, nullptr, types, offsets};
}

[[nodiscard]] QUARRY_HD inline collective_call neighbor_allgather_call(
    void const* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
    MPI_Datatype received_type) {
  return {operation::neighbor_allgather, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call neighbor_allgatherv_call(
    void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
    int const* received_counts, int const* displacements, MPI_Datatype received_type) {
  return {operation::neighbor_allgatherv, parts(sent, sent_count, sent_type),
          parts(received, received_counts, displacements, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call neighbor_alltoall_call(
    void const* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
    MPI_Datatype received_type) {
  return {operation::neighbor_alltoall, parts(sent, sent_count, sent_type),
          parts(received, received_count, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call neighbor_alltoallv_call(
    void const* sent, int const* sent_counts, int const* sent_displacements, MPI_Datatype sent_type,
    void* received, int const* received_counts, int const* received_displacements,
    MPI_Datatype received_type) {
  return {operation::neighbor_alltoallv, parts(sent, sent_counts, sent_displacements, sent_type),
          parts(received, received_counts, received_displacements, received_type)};
}
[[nodiscard]] QUARRY_HD inline collective_call neighbor_alltoallw_call(
    void const* sent, int const* sent_counts, MPI_Aint const* sent_displacements,
    MPI_Datatype const* sent_types, void* received, int const* received_counts,
    MPI_Aint const* received_displacements, MPI_Datatype const* received_types) {
  return {operation::neighbor_alltoallw, parts(sent, sent_counts, sent_displacements, sent_types),
          parts(received, received_counts, received_displacements, received_types)};
}

}  // namespace quarry::inline QUARRY_ABI::mpi
