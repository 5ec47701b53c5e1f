// SPDX-License-Identifier: Apache-2.0
// Data structures in the heap: lists, trees, rows of matrices, arrays of structures.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

typedef struct node {
  int value;
  struct node* next;
} node;

static node* push(node* head, int value) {
  node* const n = malloc(sizeof *n);  // [same = push] CU
                                      // [own = push] NO by `i < rank`: `rank` from MPI_Comm_rank
  n->value = value;
  n->next = head;
  return n;
}

static void lists(int rank, int size) {
  node *same = NULL, *own = NULL;
  for (int i = 0; i < size; ++i) same = push(same, i);
  for (int i = 0; i < rank; ++i) own = push(own, i);
  for (node const* n = same; n != NULL; n = n->next) free(malloc((size_t)n->value + 1));  // CU
  for (node const* n = own; n != NULL; n = n->next) free(malloc(8));
  // NO by `n != NULL; n = n->next) free(malloc(8))`: `rank` from MPI_Comm_rank
  while (same != NULL) {
    node* const next = same->next;
    free(same);
    same = next;
  }
  while (own != NULL) {
    node* const next = own->next;
    free(own);
    own = next;
  }
  free(malloc(8));  // CU
}

typedef struct tree {
  struct tree *left, *right;
  int key;
} tree;

static tree* grow(int depth) {
  if (depth == 0) return NULL;
  tree* const t = malloc(sizeof *t);  // CU
  t->key = depth;
  t->left = grow(depth - 1);
  t->right = grow(depth - 1);
  return t;
}

static int keys(tree const* t) { return t == NULL ? 0 : t->key + keys(t->left) + keys(t->right); }

static void cut(tree* t) {
  if (t == NULL) return;
  cut(t->left);
  cut(t->right);
  free(t);
}

static tree* insert(tree* t, int key) {
  if (t == NULL) {
    t = calloc(1, sizeof *t);  // NO by `if (t == NULL)`: from MPI_Comm_rank
    t->key = key;
  } else if (key < t->key) {
    t->left = insert(t->left, key);
  } else {
    t->right = insert(t->right, key);
  }
  return t;
}

static void rows(int rank, int size) {
  double** const m = malloc(sizeof(double*) * (size_t)size);         // CU
  for (int i = 0; i < size; ++i) m[i] = malloc(sizeof(double) * 8);  // CU
  for (int i = 0; i < size; ++i) m[i][0] = i;
  free(malloc((size_t)m[size - 1][0] + 1));  // CU
  m[0][1] = rank;
  free(malloc((size_t)m[0][1] + 1));  // CV from MPI_Comm_rank
  for (int i = 0; i < size; ++i) free(m[i]);
  free(m);
  double** const ragged = malloc(sizeof(double*) * (size_t)size);  // CU
  for (int i = 0; i < size; ++i) ragged[i] = malloc(sizeof(double) * (size_t)(rank + i + 1));
  // CV from MPI_Comm_rank
  for (int i = 0; i < size; ++i) free(ragged[i]);
  free(ragged);
}

typedef struct {
  int count;
  int owner;
  char* data;
} part;

static void parts(int rank, int size) {
  part* const list = malloc(sizeof(part) * (size_t)size);  // CU
  for (int i = 0; i < size; ++i) {
    list[i].count = i + 1;
    list[i].owner = rank;
    list[i].data = malloc((size_t)list[i].count);  // CU
  }
  for (int i = 0; i < size; ++i) free(malloc((size_t)list[i].count));  // CU
  free(malloc((size_t)list[1].owner + 1));                             // CV from MPI_Comm_rank
  free(malloc((size_t)list[rank].count));  // CV `rank` from MPI_Comm_rank
  for (int i = 0; i < size; ++i) free(list[i].data);
  free(list);
}

/// An array that doubles.
static void doubling(int rank, int size) {
  int room = 1, used = 0;
  int* values = malloc(sizeof(int));  // CU
  for (int i = 0; i < 4 * size; ++i) {
    if (used == room) values = realloc(values, sizeof(int) * (size_t)(room *= 2));  // CU
    values[used++] = i;
  }
  free(malloc((size_t)values[3]));  // CU
  free(values);
  room = 1;
  used = 0;
  values = malloc(sizeof(int));  // CU
  for (int i = 0; i < 4 * rank; ++i) {
    if (used == room) {
      room *= 2;
      values = realloc(values, sizeof(int) * (size_t)room);
      // NO by `i < 4 * rank`: `rank` from MPI_Comm_rank
    }
    values[used++] = i;
  }
  free(values);
  int* grown = malloc(sizeof(int));  // CU
  grown[0] = rank + 1;
  grown = realloc(grown, 2 * sizeof(int));  // CU
  free(malloc((size_t)grown[0]));           // CV from MPI_Comm_rank
  free(grown);
}

static void neighbours(int rank, int size) {
  int list[2];
  int count = 0;
  if (rank > 0) list[count++] = rank - 1;
  if (rank < size - 1) list[count++] = rank + 1;
  int* buffers[2];
  for (int i = 0; i < count; ++i)
    buffers[i] = malloc((size_t)list[i] + 8);  // NO by `i < count`: `rank` from MPI_Comm_rank
  for (int i = 0; i < count; ++i) free(buffers[i]);
  for (int i = 0; i < 2; ++i) buffers[i] = malloc(64);  // CU
  for (int i = 0; i < 2; ++i) free(buffers[i]);
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  lists(rank, size);
  tree* const t = grow(4);
  free(malloc((size_t)keys(t)));  // CU
  cut(t);
  tree* own = NULL;
  for (int i = 0; i < 5; ++i) own = insert(own, (i * 3 + rank) % 5);
  cut(own);
  rows(rank, size);
  parts(rank, size);
  doubling(rank, size);
  neighbours(rank, size);
  MPI_Finalize();
  return 0;
}
