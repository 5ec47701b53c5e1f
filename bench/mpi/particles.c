// SPDX-License-Identifier: Apache-2.0
// Molecular dynamics with a Lennard-Jones potential, in the way of CoMD: link cells, a block of
// cells for each rank in a 3-D grid of ranks, and messages of whole faces of cells.
//
// mpi/particles/step  ms: a step, by the slowest rank. The system has 64 x 64 x 64 cells with 8
//                     atoms each, for all numbers of ranks.
//
// A step: half a kick, a drift, atoms move to their cells, halos are exchanged, forces, half a
// kick.
// Cells keep their atoms in the order of their numbers, so that forces do not depend on the
// order in which messages arrive.
//
// usage: particles [CELLS]    a side of the box (64), which the dimensions of the grid divide
#include <string.h>

#include "measure.h"

enum { capacity = 24, per_cell = 8, dimensions = 3, steps_of_run = 6, most_runs = 5 };

static double const spacing = 1.25, time_step = 0.002, cutoff = 2.5;

typedef struct {
  double at[dimensions], speed[dimensions];
  long number;
} atom;

typedef struct {
  int count;
  atom atoms[capacity];
} cell;

static int rank, size, side;
static int cells_of_rank[dimensions], stored[dimensions];  // without and with the halo
static int grid[dimensions], place[dimensions], neighbours[dimensions][2];
static double edge, low[dimensions], box;  // of a cell; the block's lower corner; of the box
static cell* cells;
static double* forces;  // [cell][atom][dimension]
static char* faces[2];  // to send and to receive
static MPI_Comm cartesian;

static cell* cell_at(int x, int y, int z) {
  return &cells[((size_t)z * stored[1] + y) * stored[0] + x];
}

static void insert(cell* where, atom const* which) {
  require(where->count < capacity, "the number of atoms in a cell");
  int i = where->count++;
  for (; i > 0 && where->atoms[i - 1].number > which->number; --i)
    where->atoms[i] = where->atoms[i - 1];
  where->atoms[i] = *which;
}

/// The cell of an atom, in the block or its halo. Halos are one cell wide, so positions outside
/// them are an error.
static cell* home(atom const* which) {
  int index[dimensions];
  for (int d = 0; d < dimensions; ++d) {
    index[d] = (int)floor((which->at[d] - low[d]) / edge) + 1;
    require(index[d] >= 0 && index[d] < stored[d], "the distance that an atom moved");
  }
  return cell_at(index[0], index[1], index[2]);
}

static void prepare(void) {
  double const shift = 0.25 * spacing;
  for (int z = 1; z <= cells_of_rank[2]; ++z)
    for (int y = 1; y <= cells_of_rank[1]; ++y)
      for (int x = 1; x <= cells_of_rank[0]; ++x)
        for (int k = 0; k < per_cell; ++k) {
          int const in_cell[dimensions] = {k & 1, k >> 1 & 1, k >> 2},
                    index[dimensions] = {x, y, z};
          atom new;
          long number = 0;
          for (int d = dimensions - 1; d >= 0; --d) {
            long const site = 2L * (place[d] * cells_of_rank[d] + index[d] - 1) + in_cell[d];
            number = number * 2 * side + site;
            new.at[d] = (double)site* spacing + shift;
          }
          new.number = number;
          for (int d = 0; d < dimensions; ++d) {
            unsigned const mixed = (unsigned)(number * 3 + d) * 2654435761u;
            new.speed[d] = ((double)(mixed >> 16) / 65536.0 - 0.5) * 2.0;
          }
          insert(cell_at(x, y, z), &new);
        }
}

/// Empties the halo, and moves atoms of the block to their cells, which may be in the halo.
static void move_atoms(void) {
  for (int z = 0; z < stored[2]; ++z)
    for (int y = 0; y < stored[1]; ++y)
      for (int x = 0; x < stored[0]; ++x) {
        int const is_halo = x == 0 || y == 0 || z == 0 || x == stored[0] - 1 ||
                            y == stored[1] - 1 || z == stored[2] - 1;
        if (is_halo) cell_at(x, y, z)->count = 0;
      }
  for (int z = 1; z <= cells_of_rank[2]; ++z)
    for (int y = 1; y <= cells_of_rank[1]; ++y)
      for (int x = 1; x <= cells_of_rank[0]; ++x) {
        cell* const old = cell_at(x, y, z);
        for (int i = 0; i < old->count;) {
          cell* const new = home(&old->atoms[i]);
          if (new == old) {
            ++i;
            continue;
          }
          atom const moved = old->atoms[i];
          --old->count;
          for (int j = i; j < old->count; ++j) old->atoms[j] = old->atoms[j + 1];
          insert(new, &moved);
        }
      }
}

/// Copies the atoms of two layers of cells, the outermost of the block and the halo beyond it, in
/// this dimension and direction. Returns the number of bytes.
static int pack(int d, int direction, char* to) {
  int from[dimensions] = {0, 0, 0}, past[dimensions] = {stored[0], stored[1], stored[2]};
  double const shift = direction == 0 ? box : -box;
  int const is_edge = place[d] == (direction == 0 ? 0 : grid[d] - 1);
  from[d] = direction == 0 ? 0 : stored[d] - 2;
  past[d] = from[d] + 2;
  int bytes = 0;
  for (int z = from[2]; z < past[2]; ++z)
    for (int y = from[1]; y < past[1]; ++y)
      for (int x = from[0]; x < past[0]; ++x) {
        cell const* const source = cell_at(x, y, z);
        for (int i = 0; i < source->count; ++i) {
          atom copy = source->atoms[i];
          if (is_edge) copy.at[d] += shift;
          memcpy(to + bytes, &copy, sizeof copy);
          bytes += (int)sizeof copy;
        }
      }
  return bytes;
}

/// Exchanges both faces of each dimension in turn. Corners travel in several steps. An atom that
/// left a block arrives there in the layer that was the halo; one that stays is in the halo here.
static void exchange(int largest) {
  for (int d = 0; d < dimensions; ++d) {
    int bytes[2];
    char* const sent[2] = {faces[0], faces[0] + largest};
    for (int direction = 0; direction < 2; ++direction)
      bytes[direction] = pack(d, direction, sent[direction]);
    for (int direction = 0; direction < 2; ++direction) {
      MPI_Status status;
      int came;
      MPI_Sendrecv(sent[direction], bytes[direction], MPI_BYTE, neighbours[d][direction], direction,
                   faces[1] + direction * (size_t)largest, largest, MPI_BYTE,
                   neighbours[d][1 - direction], direction, cartesian, &status);
      MPI_Get_count(&status, MPI_BYTE, &came);
      bytes[direction] = came;
    }
    for (int direction = 0; direction < 2; ++direction)
      for (int at = 0; at < bytes[direction]; at += (int)sizeof(atom)) {
        atom arrived;
        memcpy(&arrived, faces[1] + direction * (size_t)largest + at, sizeof arrived);
        insert(home(&arrived), &arrived);
      }
  }
}

/// The forces on the block's atoms, and their potential energy.
static double compute_forces(void) {
  double energy = 0.0;
  for (int z = 1; z <= cells_of_rank[2]; ++z)
    for (int y = 1; y <= cells_of_rank[1]; ++y)
      for (int x = 1; x <= cells_of_rank[0]; ++x) {
        cell const* const own = cell_at(x, y, z);
        double* const to = forces + (own - cells) * capacity * dimensions;
        for (int i = 0; i < own->count; ++i) {
          double const* const at = own->atoms[i].at;
          double force[dimensions] = {0.0, 0.0, 0.0};
          for (int n = 0; n < 27; ++n) {
            cell const* const other = cell_at(x + n % 3 - 1, y + n / 3 % 3 - 1, z + n / 9 - 1);
            for (int j = 0; j < other->count; ++j) {
              double const dx = at[0] - other->atoms[j].at[0];
              double const dy = at[1] - other->atoms[j].at[1];
              double const dz = at[2] - other->atoms[j].at[2];
              double const square = dx * dx + dy * dy + dz * dz;
              if (square >= cutoff * cutoff || square == 0.0) continue;
              double const inverse = 1.0 / square, sixth = inverse * inverse * inverse;
              double const strength = 24.0 * inverse * sixth * (2.0 * sixth - 1.0);
              energy += 2.0 * sixth * (sixth - 1.0);  // half of the pair's
              force[0] += strength * dx;
              force[1] += strength * dy;
              force[2] += strength * dz;
            }
          }
          for (int d = 0; d < dimensions; ++d) to[i * dimensions + d] = force[d];
        }
      }
  return energy;
}

/// Half a kick for all atoms, then a drift of `drift` times their speed. Returns the kinetic energy
/// after the kick.
static double advance(double kick, double drift) {
  double energy = 0.0;
  for (int z = 1; z <= cells_of_rank[2]; ++z)
    for (int y = 1; y <= cells_of_rank[1]; ++y)
      for (int x = 1; x <= cells_of_rank[0]; ++x) {
        cell* const own = cell_at(x, y, z);
        double const* const force = forces + (own - cells) * capacity * dimensions;
        for (int i = 0; i < own->count; ++i)
          for (int d = 0; d < dimensions; ++d) {
            double const speed = own->atoms[i].speed[d] += kick * force[i * dimensions + d];
            own->atoms[i].at[d] += drift * speed;
            energy += 0.5 * speed * speed;
          }
      }
  return energy;
}

/// Runs steps. Returns the energy of this rank's atoms after the last one.
static double simulate(int steps, int largest) {
  double energy = 0.0;
  for (int step = 0; step < steps; ++step) {
    advance(0.5 * time_step, time_step);
    move_atoms();
    exchange(largest);
    energy = compute_forces();
    energy += advance(0.5 * time_step, 0.0);
  }
  return energy;
}

static void lay_out(void) {
  int periods[dimensions] = {1, 1, 1};
  MPI_Dims_create(size, dimensions, grid);
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, grid, periods, 0, &cartesian);
  MPI_Comm_rank(cartesian, &rank);
  MPI_Cart_coords(cartesian, rank, dimensions, place);
  edge = 2.0 * spacing;
  box = side * edge;
  for (int d = 0; d < dimensions; ++d) {
    require(side % grid[d] == 0, "the side of the box");
    MPI_Cart_shift(cartesian, d, 1, &neighbours[d][0], &neighbours[d][1]);
    cells_of_rank[d] = side / grid[d];
    stored[d] = cells_of_rank[d] + 2;
    low[d] = place[d] * cells_of_rank[d] * edge;
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  side = argc > 1 ? atoi(argv[1]) : 64;
  lay_out();
  size_t const all = (size_t)stored[0] * stored[1] * stored[2];
  int layer = 1;  // cells of the largest face
  for (int d = 0; d < dimensions; ++d) {
    int const of_face = stored[(d + 1) % 3] * stored[(d + 2) % 3];
    layer = of_face > layer ? of_face : layer;
  }
  int const largest = 2 * layer * 12 * (int)sizeof(atom);  // a face has fewer than 12 atoms a cell
  cells = calloc(all, sizeof *cells);
  forces = calloc(all * capacity * dimensions, sizeof *forces);
  for (int i = 0; i < 2; ++i) faces[i] = malloc(2 * (size_t)largest);
  require(cells != NULL && forces != NULL && faces[0] != NULL && faces[1] != NULL, "malloc");
  prepare();

  double times[most_runs], energy = 0.0, energy_before = 0.0, sum;
  char params[120];
  int runs = most_runs;
  for (int run = -1; run < runs; ++run) {  // the first run warms up
    double longest;
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    double const own = simulate(steps_of_run, largest);
    double const seconds = (MPI_Wtime() - start) / steps_of_run;
    MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&own, &energy, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (run >= 0) times[run] = longest;
    if (run < 0) energy_before = energy;
    if (longest > 0.2) runs = 1;
  }
  double count = 0.0;
  for (int z = 1; z <= cells_of_rank[2]; ++z)
    for (int y = 1; y <= cells_of_rank[1]; ++y)
      for (int x = 1; x <= cells_of_rank[0]; ++x) count += cell_at(x, y, z)->count;
  MPI_Allreduce(&count, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double const total = (double)side * side * side * per_cell;
  require(sum == total, "the number of atoms");
  require(fabs(energy - energy_before) < 1e-3 * fabs(energy_before), "the energy");
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d,\"atoms\":%.0f,\"energy_of_atom\":%.9f", size,
             total, energy_before / total);
    print_times("particles/step", params, times, runs, 1e3, "ms");
  }
  for (int i = 0; i < 2; ++i) free(faces[i]);
  free(forces);
  free(cells);
  MPI_Comm_free(&cartesian);
  MPI_Finalize();
  return 0;
}
