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
#define MPI_SHORT_INT 0x881
#define MPI_DOUBLE_INT 0x1081
#define MPI_LONG_INT 0x1082
/* long double has the size that the compiler gives it: that of double on a GPU. */
#if defined(__NVPTX__) || defined(__CUDA_ARCH__)
#define MPI_LONG_DOUBLE 0x820
#define MPI_C_LONG_DOUBLE_COMPLEX 0x1005
#define MPI_LONG_DOUBLE_INT 0x1083
#else
#define MPI_LONG_DOUBLE 0x1004
#define MPI_C_LONG_DOUBLE_COMPLEX 0x2001
#define MPI_LONG_DOUBLE_INT 0x2081
#endif
/* Fortran's types, as its compilers have them if no option changes their sizes. */
#define MPI_CHARACTER 0x109
#define MPI_LOGICAL 0x407
#define MPI_INTEGER 0x408
#define MPI_REAL 0x409
#define MPI_DOUBLE_PRECISION 0x80e
#define MPI_COMPLEX 0x80f
#define MPI_DOUBLE_COMPLEX 0x1006
#define MPI_2INTEGER 0x810
#define MPI_2REAL 0x811
#define MPI_2DOUBLE_PRECISION 0x1007
/* Types of languages that quarry-mpicc does not compile. */
#define MPI_CXX_BOOL MPI_DATATYPE_NULL
#define MPI_CXX_FLOAT_COMPLEX MPI_DATATYPE_NULL
#define MPI_CXX_DOUBLE_COMPLEX MPI_DATATYPE_NULL
#define MPI_CXX_LONG_DOUBLE_COMPLEX MPI_DATATYPE_NULL
#define MPI_INTEGER1 MPI_DATATYPE_NULL
#define MPI_INTEGER2 MPI_DATATYPE_NULL
#define MPI_INTEGER4 MPI_DATATYPE_NULL
#define MPI_INTEGER8 MPI_DATATYPE_NULL
#define MPI_INTEGER16 MPI_DATATYPE_NULL
#define MPI_REAL4 MPI_DATATYPE_NULL
#define MPI_REAL8 MPI_DATATYPE_NULL
#define MPI_REAL16 MPI_DATATYPE_NULL
#define MPI_COMPLEX8 MPI_DATATYPE_NULL
#define MPI_COMPLEX16 MPI_DATATYPE_NULL
#define MPI_COMPLEX32 MPI_DATATYPE_NULL
/* MPI-1: entries of MPI_Type_struct that set a bound. */
#define MPI_LB 0x10
#define MPI_UB 0x11

#define MPI_ORDER_C 1
#define MPI_ORDER_FORTRAN 2
#define MPI_DISTRIBUTE_NONE 1
#define MPI_DISTRIBUTE_BLOCK 2
#define MPI_DISTRIBUTE_CYCLIC 3
#define MPI_DISTRIBUTE_DFLT_DARG (-1)

#define MPI_COMBINER_NAMED 1
#define MPI_COMBINER_DUP 2
#define MPI_COMBINER_CONTIGUOUS 3
#define MPI_COMBINER_VECTOR 4
#define MPI_COMBINER_HVECTOR 5
#define MPI_COMBINER_INDEXED 6
#define MPI_COMBINER_HINDEXED 7
#define MPI_COMBINER_INDEXED_BLOCK 8
#define MPI_COMBINER_HINDEXED_BLOCK 9
#define MPI_COMBINER_STRUCT 10
#define MPI_COMBINER_SUBARRAY 11
#define MPI_COMBINER_DARRAY 12
#define MPI_COMBINER_RESIZED 13
/* No type of this library has these. */
#define MPI_COMBINER_F90_REAL 14
#define MPI_COMBINER_F90_COMPLEX 15
#define MPI_COMBINER_F90_INTEGER 16
#define MPI_COMBINER_HVECTOR_INTEGER 17
#define MPI_COMBINER_HINDEXED_INTEGER 18
#define MPI_COMBINER_STRUCT_INTEGER 19

#define MPI_TYPECLASS_REAL 1
#define MPI_TYPECLASS_INTEGER 2
#define MPI_TYPECLASS_COMPLEX 3

int MPI_Type_contiguous(int count, MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_vector(int count, int block_length, int stride, MPI_Datatype old_type,
                    MPI_Datatype* new_type);
int MPI_Type_create_hvector(int count, int block_length, MPI_Aint stride, MPI_Datatype old_type,
                            MPI_Datatype* new_type);
int MPI_Type_indexed(int count, int const* lengths, int const* displacements, MPI_Datatype old_type,
                     MPI_Datatype* new_type);
int MPI_Type_create_hindexed(int count, int const* lengths, MPI_Aint const* displacements,
                             MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_create_indexed_block(int count, int block_length, int const* displacements,
                                  MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_create_hindexed_block(int count, int block_length, MPI_Aint const* displacements,
                                   MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_create_struct(int count, int const* lengths, MPI_Aint const* displacements,
                           MPI_Datatype const* types, MPI_Datatype* new_type);
int MPI_Type_create_resized(MPI_Datatype old_type, MPI_Aint lower_bound, MPI_Aint extent,
                            MPI_Datatype* new_type);
int MPI_Type_dup(MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_create_subarray(int dimensions, int const* sizes, int const* part_sizes,
                             int const* starts, int order, MPI_Datatype old_type,
                             MPI_Datatype* new_type);
int MPI_Type_create_darray(int size, int rank, int dimensions, int const* sizes,
                           int const* distributions, int const* arguments,
                           int const* process_counts, int order, MPI_Datatype old_type,
                           MPI_Datatype* new_type);
int MPI_Type_commit(MPI_Datatype* type);
int MPI_Type_free(MPI_Datatype* type);

int MPI_Type_size(MPI_Datatype type, int* size);
int MPI_Type_size_x(MPI_Datatype type, MPI_Count* size);
int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower_bound, MPI_Aint* extent);
int MPI_Type_get_extent_x(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent);
int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint* lower_bound, MPI_Aint* extent);
int MPI_Type_get_true_extent_x(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent);
int MPI_Type_get_envelope(MPI_Datatype type, int* integers, int* addresses, int* types,
                          int* combiner);
int MPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses, int max_types,
                          int* integers, MPI_Aint* addresses, MPI_Datatype* types);
int MPI_Type_set_name(MPI_Datatype type, char const* name);
int MPI_Type_get_name(MPI_Datatype type, char* name, int* length);
int MPI_Type_match_size(int type_class, int size, MPI_Datatype* type);

int MPI_Get_elements(MPI_Status const* status, MPI_Datatype type, int* count);
int MPI_Get_elements_x(MPI_Status const* status, MPI_Datatype type, MPI_Count* count);
int MPI_Status_set_elements(MPI_Status* status, MPI_Datatype type, int count);
int MPI_Status_set_elements_x(MPI_Status* status, MPI_Datatype type, MPI_Count count);

int MPI_Get_address(void const* location, MPI_Aint* address);
MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint distance);
MPI_Aint MPI_Aint_diff(MPI_Aint address, MPI_Aint base);

int MPI_Pack(void const* input, int count, MPI_Datatype type, void* output, int output_size,
             int* position, MPI_Comm communicator);
int MPI_Unpack(void const* input, int input_size, int* position, void* output, int count,
               MPI_Datatype type, MPI_Comm communicator);
int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm communicator, int* size);
int MPI_Pack_external(char const* representation, void const* input, int count, MPI_Datatype type,
                      void* output, MPI_Aint output_size, MPI_Aint* position);
int MPI_Unpack_external(char const* representation, void const* input, MPI_Aint input_size,
                        MPI_Aint* position, void* output, int count, MPI_Datatype type);
int MPI_Pack_external_size(char const* representation, int count, MPI_Datatype type,
                           MPI_Aint* size);

/* MPI-1: later versions of the standard have these under other names. */
int MPI_Address(void* location, MPI_Aint* address);
int MPI_Type_hvector(int count, int block_length, MPI_Aint stride, MPI_Datatype old_type,
                     MPI_Datatype* new_type);
int MPI_Type_hindexed(int count, int* lengths, MPI_Aint* displacements, MPI_Datatype old_type,
                      MPI_Datatype* new_type);
int MPI_Type_struct(int count, int* lengths, MPI_Aint* displacements, MPI_Datatype* types,
                    MPI_Datatype* new_type);
int MPI_Type_extent(MPI_Datatype type, MPI_Aint* extent);
int MPI_Type_lb(MPI_Datatype type, MPI_Aint* displacement);
int MPI_Type_ub(MPI_Datatype type, MPI_Aint* displacement);

#ifdef __cplusplus
}
#endif
#endif
