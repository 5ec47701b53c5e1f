/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's functions of <complex.h> against those of the C library, on random numbers. Prints the functions whose largest error,
   relative to the size of the result, is above 2e-15 (float: 2e-7). */
#define NAME(function) own_##function
#include "../../../compiler/gpu_complex.c"

#include <stdio.h>
#include <stdlib.h>

static double uniform(void) { return 2.0 * rand() / RAND_MAX - 1; }
static number draw(int i) {
  double const scale = i % 4 == 0 ? 0.1 : i % 4 == 1 ? 1 : i % 4 == 2 ? 5 : 1e-8;
  return make(uniform() * scale, uniform() * scale);
}
static double error_of(number own, number wanted) { return size_of(own - wanted) / size_of(wanted); }

#define CHECK(name)                                                                                                   \
  {                                                                                                                   \
    double worst = 0, worst_float = 0;                                                                                \
    for (int i = 0; i < 20000; ++i) {                                                                                 \
      number const z = draw(i);                                                                                       \
      double error = error_of(own_##name(z), name(z));                                                                \
      if (error > worst) worst = error;                                                                               \
      error = error_of(own_##name##f((float complex)z), name((float complex)z));                                      \
      if (error > worst_float) worst_float = error;                                                                   \
    }                                                                                                                 \
    if (!(worst <= 2e-15) || !(worst_float <= 2e-7)) printf("%s: %.3g, %.3g\n", #name, worst, worst_float);           \
  }

int main(void) {
  CHECK(cabs) CHECK(carg) CHECK(creal) CHECK(cimag) CHECK(conj) CHECK(cproj)
  CHECK(cexp) CHECK(clog) CHECK(csqrt) CHECK(csin) CHECK(ccos) CHECK(ctan) CHECK(csinh) CHECK(ccosh) CHECK(ctanh)
  CHECK(casin) CHECK(cacos) CHECK(catan) CHECK(casinh) CHECK(cacosh) CHECK(catanh)
  double worst = 0;
  for (int i = 0; i < 20000; ++i) {
    number const base = draw(1), exponent = draw(1);
    double const error = error_of(own_cpow(base, exponent), cpow(base, exponent));
    if (error > worst) worst = error;
  }
  if (worst > 2e-14) printf("cpow: %.3g\n", worst);
  for (double size = 1e-307; size < 1e308; size *= 1e5)
    if (error_of(own_csqrt(make(size, -size)), csqrt(make(size, -size))) > 2e-15) printf("csqrt of %g\n", size);
  return 0;
}
