/* SPDX-License-Identifier: Apache-2.0 */
/* Types and constants of MPI's files, dynamic processes and one-sided communication, none of whose
   functions exist. With them a program compiles so far that quarry-mpicc names the functions that
   it calls. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_ABSENT_H
#define QUARRY_MPI_MPI_ABSENT_H

typedef int MPI_File;
#define MPI_FILE_NULL 0
#define MPI_DISPLACEMENT_CURRENT (-1)
#define MPI_MODE_CREATE 1
#define MPI_MODE_RDONLY 2
#define MPI_MODE_WRONLY 4
#define MPI_MODE_RDWR 8
#define MPI_MODE_DELETE_ON_CLOSE 16
#define MPI_MODE_UNIQUE_OPEN 32
#define MPI_MODE_EXCL 64
#define MPI_MODE_APPEND 128
#define MPI_MODE_SEQUENTIAL 256
#define MPI_SEEK_SET 0
#define MPI_SEEK_CUR 1
#define MPI_SEEK_END 2

#define MPI_MAX_PORT_NAME 256
#define MPI_ARGV_NULL ((char**)0)
#define MPI_ARGVS_NULL ((char***)0)
#define MPI_ERRCODES_IGNORE ((int*)0)

#define MPI_LOCK_EXCLUSIVE 1
#define MPI_LOCK_SHARED 2
#define MPI_MODE_NOCHECK 1024
#define MPI_MODE_NOPRECEDE 2048
#define MPI_MODE_NOPUT 4096
#define MPI_MODE_NOSTORE 8192
#define MPI_MODE_NOSUCCEED 16384

#endif
