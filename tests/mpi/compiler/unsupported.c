/* SPDX-License-Identifier: Apache-2.0 */
/* Everything here is refused. The test reads the line numbers from the comments. */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

int MPI_Invented(int);
int some_function(int);
static jmp_buf place;
static void* work(void* data) { return data; }
static int (*table[])(int) = {some_function}; /* some_function */

int main(void) {
  pthread_t thread;
  MPI_File file = MPI_FILE_NULL;
  char port[MPI_MAX_PORT_NAME];
  pthread_create(&thread, 0, work, 0); /* pthread_create */
  signal(SIGINT, SIG_IGN);             /* signal */
  char* lost = malloc(9);              /* malloc without a declaration */
  if (fork() == 0) return 1;           /* fork */
  socket(1, 2, 3);                     /* socket */
  MPI_Invented(3);                     /* MPI_Invented */
  if (table[0](1)) return lost[8];
  if (setjmp(place)) return 2;                                              /* _setjmp */
  MPI_Invented(4);                                                          /* MPI_Invented */
  MPI_File_open(MPI_COMM_SELF, "a", MPI_MODE_RDONLY, MPI_INFO_NULL, &file); /* MPI_File_open */
  MPI_Open_port(MPI_INFO_NULL, port);                                       /* MPI_Open_port */
  __asm__ volatile("nop");                                                  /* inline assembly */
  return some_function(5);                                                  /* some_function */
}
