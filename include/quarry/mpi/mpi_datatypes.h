/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_DATATYPES_H
#define QUARRY_MPI_MPI_DATATYPES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Bits 8 and above of a basic type are its extent: the bytes from one element to the next. Bit 7
   marks a pair with a gap of a quarter of the extent; messages do not contain the gap. */
#define MPI_CHAR 0x101
#define MPI_SIGNED_CHAR 0x102
#define MPI_UNSIGNED_CHAR 0x103
#define MPI_BYTE 0x104
#define MPI_PACKED 0x105
#define MPI_C_BOOL 0x106
#define MPI_INT8_T 0x107
#define MPI_UINT8_T 0x108
#define MPI_SHORT 0x201
#define MPI_UNSIGNED_SHORT 0x202
#define MPI_INT16_T 0x203
#define MPI_UINT16_T 0x204
#define MPI_INT 0x401
#define MPI_UNSIGNED 0x402
#define MPI_FLOAT 0x403
#define MPI_INT32_T 0x404
#define MPI_UINT32_T 0x405
#define MPI_WCHAR 0x406
#define MPI_2INT 0x801
#define MPI_FLOAT_INT 0x803
#define MPI_LONG 0x804
#define MPI_UNSIGNED_LONG 0x805
#define MPI_LONG_LONG 0x806
#define MPI_LONG_LONG_INT 0x806
#define MPI_UNSIGNED_LONG_LONG 0x807
#define MPI_DOUBLE 0x808
#define MPI_INT64_T 0x809
#define MPI_UINT64_T 0x80a
#define MPI_AINT 0x80b
#define MPI_COUNT 0x80c
#define MPI_OFFSET 0x80d
#define MPI_C_COMPLEX 0x802
#define MPI_C_FLOAT_COMPLEX 0x802
#define MPI_C_DOUBLE_COMPLEX 0x1003
/* long double has the size that the compiler gives it: that of double on a GPU. */
#if defined(__NVPTX__) || defined(__CUDA_ARCH__)
#define MPI_LONG_DOUBLE 0x80f
#else
#define MPI_LONG_DOUBLE 0x1004
#endif
#define MPI_SHORT_INT 0x881
#define MPI_DOUBLE_INT 0x1081
#define MPI_LONG_INT 0x1082

int MPI_Type_size(MPI_Datatype type, int* size);
int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower_bound, MPI_Aint* extent);
int MPI_Type_contiguous(int count, MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_vector(int count, int block_length, int stride, MPI_Datatype old_type,
                    MPI_Datatype* new_type);
int MPI_Type_commit(MPI_Datatype* type);
int MPI_Type_free(MPI_Datatype* type);

#ifdef __cplusplus
}
#endif
#endif
