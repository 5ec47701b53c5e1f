/* SPDX-License-Identifier: Apache-2.0 */
/* A host pool in C: each call returns a status, and quarry_last_error describes the last error. */
#include "quarry/host/c_api.h"

#include <stdio.h>

int main(void) {
  quarry_pool_options options = quarry_pool_default_options();
  quarry_pool* pool = NULL;
  void* field = NULL;
  quarry_pool_counts counts;

  options.max_bytes = 1u << 30;
  if (quarry_pool_create(QUARRY_HOST, &options, &pool) != QUARRY_OK) {
    fprintf(stderr, "%s\n", quarry_last_error());
    return 1;
  }
  if (quarry_pool_allocate(pool, 1000000, &field) != QUARRY_OK)
    fprintf(stderr, "%s\n", quarry_last_error());
  quarry_pool_get_counts(pool, &counts);
  printf("%lu bytes allocated of %lu reserved\n", (unsigned long)counts.allocated,
         (unsigned long)counts.reserved);
  if (quarry_pool_allocate(pool, (uint64_t)2 << 30, &field) == QUARRY_OUT_OF_MEMORY)
    printf("%s\n", quarry_last_error());
  quarry_pool_destroy(pool);
  return 0;
}
