// SPDX-License-Identifier: Apache-2.0
// Shared by the MPI benchmarks: how often a step repeats, and JSON lines with the median and the
// spread.
//
// A sample is the mean time of many steps, taken by MPI_Wtime inside a rank. Steps before the first
// sample warm up, so the memory of messages is in use already.
#pragma once

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { samples = 11, fewest_samples = 5 };

static double const sample_seconds = 0.004;

/// How many steps a sample has, if one step takes `seconds` on rank 0. The same in all ranks.
static int steps_of_sample(double seconds) {
  double const wanted = sample_seconds / (seconds > 1e-8 ? seconds : 1e-8);
  int steps = wanted < 1.0 ? 1 : wanted > 20000.0 ? 20000 : (int)wanted;
  MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return steps;
}

/// Ends the run: a benchmark that computes something wrong has no figures.
static void require(int is_right, char const* what) {
  if (is_right) return;
  fprintf(stderr, "wrong result: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static char const* setting(char const* name) {
  char const* const value = getenv(name);
  return value != NULL ? value : "unknown";
}

/// Prints a line. `params` are members of a JSON object. Sorts and scales the times.
static void print_times(char const* bench, char const* params, double* times, int count,
                        double scale, char const* unit) {
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < count; ++i) times[i] *= scale;
  for (int i = 1; i < count; ++i)
    for (int j = i; j > 0 && times[j] < times[j - 1]; --j) {
      double const larger = times[j - 1];
      times[j - 1] = times[j];
      times[j] = larger;
    }
  for (int i = 0; i < count; ++i) sum += times[i];
  for (int i = 0; i < count; ++i) squares += (times[i] - sum / count) * (times[i] - sum / count);
  printf("{\"bench\":\"mpi/%s\",\"params\":{\"system\":\"%s\",\"host\":\"%s\",%s},\"value\":%.6g,",
         bench, setting("QUARRY_SYSTEM"), setting("QUARRY_HOST"), params, times[count / 2]);
  printf(
      "\"unit\":\"%s\",\"spread\":{\"mean\":%.6g,\"sd\":%.6g,\"p10\":%.6g,\"p90\":%.6g,\"runs\":%d}"
      ",",
      unit, sum / count, sqrt(squares / count), times[count / 10], times[count - 1 - count / 10],
      count);
  printf("\"machine\":\"%s\",\"date\":\"%s\",\"commit\":\"%s\"}\n", setting("QUARRY_MACHINE"),
         setting("QUARRY_DATE"), setting("QUARRY_COMMIT"));
}
