// SPDX-License-Identifier: Apache-2.0
// Bodies that attract each other. The positions travel around a ring; energies are summed.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  double position[3];
  double mass;
} point;

typedef struct {
  point at;
  double velocity[3];
} body;

static const double step_length = 0.01, softening = 0.05;
static int bodies = 24;

static body make_body(int id) {
  body made;
  double const angle = 0.7 * id;
  memset(&made, 0, sizeof made);
  made.at.position[0] = cos(angle) * (1.0 + 0.05 * id);
  made.at.position[1] = sin(angle) * (1.0 + 0.05 * id);
  made.at.position[2] = 0.1 * (id % 5);
  made.at.mass = 1.0 / bodies;
  made.velocity[0] = -0.5 * sin(angle);
  made.velocity[1] = 0.5 * cos(angle);
  return made;
}

static void attract(const point *own, const point *others, int count, double force[3],
                    double *potential) {
  for (int k = 0; k < count; ++k) {
    double d[3], squared = softening * softening;
    for (int axis = 0; axis < 3; ++axis) {
      d[axis] = others[k].position[axis] - own->position[axis];
      squared += d[axis] * d[axis];
    }
    double const distance = sqrt(squared);
    double const strength = others[k].mass / (squared * distance);
    for (int axis = 0; axis < 3; ++axis) force[axis] += strength * d[axis];
    *potential -= 0.5 * own->mass * others[k].mass / distance;
  }
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) bodies = atoi(argv[1]);
  int const first = bodies * rank / size, count = bodies * (rank + 1) / size - first;
  int const largest = bodies / size + 1;
  body *const own = malloc(sizeof *own * (size_t)largest);
  point *const visitors = malloc(sizeof *visitors * (size_t)largest);
  for (int i = 0; i < count; ++i) own[i] = make_body(first + i);

  for (int step = 0; step <= 10; ++step) {
    double energies[2] = {0.0, 0.0}, all[2];  // kinetic, potential
    double(*const forces)[3] = calloc((size_t)largest, sizeof *forces);
    int guests = count;
    for (int i = 0; i < count; ++i) visitors[i] = own[i].at;
    for (int turn = 0; turn < size; ++turn) {
      MPI_Status status;
      int bytes;
      for (int i = 0; i < count; ++i)
        attract(&own[i].at, visitors, guests, forces[i], &energies[1]);
      point arriving[largest];
      MPI_Sendrecv(visitors, guests * (int)sizeof(point), MPI_BYTE, (rank + 1) % size, turn,
                   arriving, largest * (int)sizeof(point), MPI_BYTE, (rank + size - 1) % size, turn,
                   MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      guests = bytes / (int)sizeof(point);
      memcpy(visitors, arriving, (size_t)bytes);
    }
    for (int i = 0; i < count; ++i)
      for (int axis = 0; axis < 3; ++axis) {
        double const before = own[i].velocity[axis];
        energies[0] += 0.5 * own[i].at.mass * before * before;
        own[i].velocity[axis] += step_length * forces[i][axis];
        own[i].at.position[axis] += step_length * own[i].velocity[axis];
      }
    free(forces);
    MPI_Reduce(energies, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && step % 5 == 0)
      printf("step %2d: kinetic %.7f, potential %.7f\n", step, all[0], all[1]);
  }
  for (int i = 0; i < count; ++i)
    printf("body %2d at %9.6f %9.6f %9.6f\n", first + i, own[i].at.position[0],
           own[i].at.position[1], own[i].at.position[2]);
  free(own);
  free(visitors);
  MPI_Finalize();
  return 0;
}
