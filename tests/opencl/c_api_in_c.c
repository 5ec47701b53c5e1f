/* SPDX-License-Identifier: Apache-2.0 */
/* The headers compile as C, with their inline functions. */
#include "quarry/opencl/c_containers.h"

int quarry_test_opencl_header_in_c(void);
int quarry_test_opencl_header_in_c(void) {
  quarry_opencl_heap_options const options = quarry_opencl_heap_default_options();
  char memory[32];
  if (options.size != sizeof options || options.bytes == 0 || options.max_bytes != 0) return 1;
  if (quarry_opencl_at(memory, 0) != NULL || quarry_opencl_at(memory, 1) != memory + 16) return 2;
  if (quarry_opencl_sources() == NULL || quarry_opencl_heap_destroy(NULL) != QUARRY_OK) return 3;
  if (quarry_opencl_vector_clear(NULL, NULL) != QUARRY_BAD_ARGUMENT) return 4;
  quarry_opencl_csr_free(NULL);
  return 0;
}
