/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of functions without prototypes, as programs in old C have them. */
#include <mpi.h>
#include <stdio.h>
char* malloc();
double half();
int add(a, b)
int a;
long b;
{
  return a + b;
}
int main(int argc, char** argv) {
  int n = 40;
  char* p = malloc(n);
  p[n - 1] = 'x';
  MPI_Init(&argc, &argv);
  printf("%d %c %.1f\n", add(3, 4L), p[n - 1], half(5.0));
  free(p);
  MPI_Finalize();
  return 0;
}
double half(double x) { return x / 2; }
