/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MPI 4 whose names end with _c, one row each: the name without MPI_ and _c, the
   communicator whose error handler is called, the parameters, and the arguments of the function
   without _c. mpi_large_counts.h declares them, and the runtime defines them: there N is an int
   from a count, A an array of ints, P one of addresses, OUT a place for an int that the function
   returns, and INOUT one that it also reads. Collective operations have three forms. */

/* messages */
QUARRY_LARGE_COUNT(Send, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm),
                   (data, N(count), type, to, tag, comm))
QUARRY_LARGE_COUNT(Ssend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm),
                   (data, N(count), type, to, tag, comm))
QUARRY_LARGE_COUNT(Bsend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm),
                   (data, N(count), type, to, tag, comm))
QUARRY_LARGE_COUNT(Rsend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm),
                   (data, N(count), type, to, tag, comm))
QUARRY_LARGE_COUNT(Isend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Issend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Ibsend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Irsend, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Send_init, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Ssend_init, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Bsend_init, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Rsend_init, comm,
                   (void const* data, MPI_Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, tag, comm, request))
QUARRY_LARGE_COUNT(Recv, comm,
                   (void* data, MPI_Count count, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Status* status),
                   (data, N(count), type, from, tag, comm, status))
QUARRY_LARGE_COUNT(Irecv, comm,
                   (void* data, MPI_Count count, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, from, tag, comm, request))
QUARRY_LARGE_COUNT(Recv_init, comm,
                   (void* data, MPI_Count count, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, from, tag, comm, request))
QUARRY_LARGE_COUNT(Mrecv, MPI_COMM_WORLD,
                   (void* data, MPI_Count count, MPI_Datatype type, MPI_Message* message,
                    MPI_Status* status),
                   (data, N(count), type, message, status))
QUARRY_LARGE_COUNT(Imrecv, MPI_COMM_WORLD,
                   (void* data, MPI_Count count, MPI_Datatype type, MPI_Message* message,
                    MPI_Request* request),
                   (data, N(count), type, message, request))
QUARRY_LARGE_COUNT(Sendrecv, comm,
                   (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type, int to,
                    int sent_tag, void* received, MPI_Count received_count,
                    MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm,
                    MPI_Status* status),
                   (sent, N(sent_count), sent_type, to, sent_tag, received, N(received_count),
                    received_type, from, received_tag, comm, status))
QUARRY_LARGE_COUNT(Isendrecv, comm,
                   (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type, int to,
                    int sent_tag, void* received, MPI_Count received_count,
                    MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm,
                    MPI_Request* request),
                   (sent, N(sent_count), sent_type, to, sent_tag, received, N(received_count),
                    received_type, from, received_tag, comm, request))
QUARRY_LARGE_COUNT(Sendrecv_replace, comm,
                   (void* data, MPI_Count count, MPI_Datatype type, int to, int sent_tag, int from,
                    int received_tag, MPI_Comm comm, MPI_Status* status),
                   (data, N(count), type, to, sent_tag, from, received_tag, comm, status))
QUARRY_LARGE_COUNT(Isendrecv_replace, comm,
                   (void* data, MPI_Count count, MPI_Datatype type, int to, int sent_tag, int from,
                    int received_tag, MPI_Comm comm, MPI_Request* request),
                   (data, N(count), type, to, sent_tag, from, received_tag, comm, request))
QUARRY_LARGE_COUNT(Buffer_attach, MPI_COMM_WORLD, (void* buffer, MPI_Count size), (buffer, N(size)))
QUARRY_LARGE_COUNT(Buffer_detach, MPI_COMM_WORLD, (void* buffer_address, MPI_Count* size),
                   (buffer_address, OUT(size)))

/* collective operations */
QUARRY_LARGE_COLLECTIVE(Bcast, Ibcast, (void* data, MPI_Count count, MPI_Datatype type, int root),
                        (data, N(count), type, root))
QUARRY_LARGE_COLLECTIVE(Reduce, Ireduce,
                        (void const* sent, void* received, MPI_Count count, MPI_Datatype type,
                         MPI_Op op, int root),
                        (sent, received, N(count), type, op, root))
QUARRY_LARGE_COLLECTIVE(Allreduce, Iallreduce,
                        (void const* sent, void* received, MPI_Count count, MPI_Datatype type,
                         MPI_Op op),
                        (sent, received, N(count), type, op))
QUARRY_LARGE_COLLECTIVE(Scan, Iscan,
                        (void const* sent, void* received, MPI_Count count, MPI_Datatype type,
                         MPI_Op op),
                        (sent, received, N(count), type, op))
QUARRY_LARGE_COLLECTIVE(Exscan, Iexscan,
                        (void const* sent, void* received, MPI_Count count, MPI_Datatype type,
                         MPI_Op op),
                        (sent, received, N(count), type, op))
QUARRY_LARGE_COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block,
                        (void const* sent, void* received, MPI_Count count, MPI_Datatype type,
                         MPI_Op op),
                        (sent, received, N(count), type, op))
QUARRY_LARGE_COLLECTIVE(Reduce_scatter, Ireduce_scatter,
                        (void const* sent, void* received, MPI_Count const* counts,
                         MPI_Datatype type, MPI_Op op),
                        (sent, received, A(counts, in.local()), type, op))
QUARRY_LARGE_COLLECTIVE(Gather, Igather,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type,
                         int root),
                        (sent, N(sent_count), sent_type, received, N(received_count), received_type,
                         root))
QUARRY_LARGE_COLLECTIVE(Gatherv, Igatherv,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count const* received_counts,
                         MPI_Aint const* displacements, MPI_Datatype received_type, int root),
                        (sent, N(sent_count), sent_type, received,
                         A(received_counts, in.parts_of(root)), A(displacements, in.parts_of(root)),
                         received_type, root))
QUARRY_LARGE_COLLECTIVE(Scatter, Iscatter,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type,
                         int root),
                        (sent, N(sent_count), sent_type, received, N(received_count), received_type,
                         root))
QUARRY_LARGE_COLLECTIVE(Scatterv, Iscatterv,
                        (void const* sent, MPI_Count const* sent_counts,
                         MPI_Aint const* displacements, MPI_Datatype sent_type, void* received,
                         MPI_Count received_count, MPI_Datatype received_type, int root),
                        (sent, A(sent_counts, in.parts_of(root)),
                         A(displacements, in.parts_of(root)), sent_type, received,
                         N(received_count), received_type, root))
QUARRY_LARGE_COLLECTIVE(Allgather, Iallgather,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, N(received_count),
                         received_type))
QUARRY_LARGE_COLLECTIVE(Allgatherv, Iallgatherv,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count const* received_counts,
                         MPI_Aint const* displacements, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, A(received_counts, in.remote()),
                         A(displacements, in.remote()), received_type))
QUARRY_LARGE_COLLECTIVE(Alltoall, Ialltoall,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, N(received_count),
                         received_type))
QUARRY_LARGE_COLLECTIVE(Alltoallv, Ialltoallv,
                        (void const* sent, MPI_Count const* sent_counts,
                         MPI_Aint const* sent_displacements, MPI_Datatype sent_type, void* received,
                         MPI_Count const* received_counts, MPI_Aint const* received_displacements,
                         MPI_Datatype received_type),
                        (sent, A(sent_counts, in.parts_in(sent)),
                         A(sent_displacements, in.parts_in(sent)), sent_type, received,
                         A(received_counts, in.remote()), A(received_displacements, in.remote()),
                         received_type))
QUARRY_LARGE_COLLECTIVE(
    Alltoallw, Ialltoallw,
    (void const* sent, MPI_Count const* sent_counts, MPI_Aint const* sent_displacements,
     MPI_Datatype const* sent_types, void* received, MPI_Count const* received_counts,
     MPI_Aint const* received_displacements, MPI_Datatype const* received_types),
    (sent, A(sent_counts, in.parts_in(sent)), A(sent_displacements, in.parts_in(sent)), sent_types,
     received, A(received_counts, in.remote()), A(received_displacements, in.remote()),
     received_types))
QUARRY_LARGE_COLLECTIVE(Neighbor_allgather, Ineighbor_allgather,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, N(received_count),
                         received_type))
QUARRY_LARGE_COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count const* received_counts,
                         MPI_Aint const* displacements, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, A(received_counts, in.sources()),
                         A(displacements, in.sources()), received_type))
QUARRY_LARGE_COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall,
                        (void const* sent, MPI_Count sent_count, MPI_Datatype sent_type,
                         void* received, MPI_Count received_count, MPI_Datatype received_type),
                        (sent, N(sent_count), sent_type, received, N(received_count),
                         received_type))
QUARRY_LARGE_COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv,
                        (void const* sent, MPI_Count const* sent_counts,
                         MPI_Aint const* sent_displacements, MPI_Datatype sent_type, void* received,
                         MPI_Count const* received_counts, MPI_Aint const* received_displacements,
                         MPI_Datatype received_type),
                        (sent, A(sent_counts, in.targets()), A(sent_displacements, in.targets()),
                         sent_type, received, A(received_counts, in.sources()),
                         A(received_displacements, in.sources()), received_type))
QUARRY_LARGE_COLLECTIVE(
    Neighbor_alltoallw, Ineighbor_alltoallw,
    (void const* sent, MPI_Count const* sent_counts, MPI_Aint const* sent_displacements,
     MPI_Datatype const* sent_types, void* received, MPI_Count const* received_counts,
     MPI_Aint const* received_displacements, MPI_Datatype const* received_types),
    (sent, A(sent_counts, in.targets()), sent_displacements, sent_types, received,
     A(received_counts, in.sources()), received_displacements, received_types))
QUARRY_LARGE_COUNT(Reduce_local, MPI_COMM_WORLD,
                   (void const* input, void* in_out, MPI_Count count, MPI_Datatype type, MPI_Op op),
                   (input, in_out, N(count), type, op))

/* datatypes */
QUARRY_LARGE_COUNT(Type_contiguous, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), old_type, new_type))
QUARRY_LARGE_COUNT(Type_vector, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count block_length, MPI_Count stride,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), N(block_length), N(stride), old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_hvector, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count block_length, MPI_Count stride,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), N(block_length), stride, old_type, new_type))
QUARRY_LARGE_COUNT(Type_indexed, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count const* lengths, MPI_Count const* displacements,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), A(lengths, count), A(displacements, count), old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_hindexed, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count const* lengths, MPI_Count const* displacements,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), A(lengths, count), P(displacements), old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_indexed_block, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count block_length, MPI_Count const* displacements,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), N(block_length), A(displacements, count), old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_hindexed_block, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count block_length, MPI_Count const* displacements,
                    MPI_Datatype old_type, MPI_Datatype* new_type),
                   (N(count), N(block_length), P(displacements), old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_struct, MPI_COMM_WORLD,
                   (MPI_Count count, MPI_Count const* lengths, MPI_Count const* displacements,
                    MPI_Datatype const* types, MPI_Datatype* new_type),
                   (N(count), A(lengths, count), P(displacements), types, new_type))
QUARRY_LARGE_COUNT(Type_create_resized, MPI_COMM_WORLD,
                   (MPI_Datatype old_type, MPI_Count lower_bound, MPI_Count extent,
                    MPI_Datatype* new_type),
                   (old_type, lower_bound, extent, new_type))
QUARRY_LARGE_COUNT(Type_create_subarray, MPI_COMM_WORLD,
                   (int dimensions, MPI_Count const* sizes, MPI_Count const* part_sizes,
                    MPI_Count const* starts, int order, MPI_Datatype old_type,
                    MPI_Datatype* new_type),
                   (dimensions, A(sizes, dimensions), A(part_sizes, dimensions),
                    A(starts, dimensions), order, old_type, new_type))
QUARRY_LARGE_COUNT(Type_create_darray, MPI_COMM_WORLD,
                   (int size, int rank, int dimensions, MPI_Count const* sizes,
                    int const* distributions, int const* arguments, int const* process_counts,
                    int order, MPI_Datatype old_type, MPI_Datatype* new_type),
                   (size, rank, dimensions, A(sizes, dimensions), distributions, arguments,
                    process_counts, order, old_type, new_type))
QUARRY_LARGE_COUNT(Pack, comm,
                   (void const* input, MPI_Count count, MPI_Datatype type, void* output,
                    MPI_Count output_size, MPI_Count* position, MPI_Comm comm),
                   (input, N(count), type, output, N(output_size), INOUT(position), comm))
QUARRY_LARGE_COUNT(Unpack, comm,
                   (void const* input, MPI_Count input_size, MPI_Count* position, void* output,
                    MPI_Count count, MPI_Datatype type, MPI_Comm comm),
                   (input, N(input_size), INOUT(position), output, N(count), type, comm))
QUARRY_LARGE_COUNT(Pack_size, comm,
                   (MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Count* size),
                   (N(count), type, comm, OUT(size)))
