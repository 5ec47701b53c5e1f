/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what functions of <math.h> return. No value is known when the program is compiled. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void of_double(double x) {
  printf("%.5g %.5g %.5g %.5g %.5g %.5g\n", sin(x), cos(x), tan(x), asin(x), acos(x), atan(x));
  printf("%.5g %.5g %.5g %.5g %.5g\n", sinh(x), cosh(x), tanh(x), atan2(x, 2), hypot(x, 2));
  printf("%.5g %.5g %.5g %.5g %.5g\n", exp(x), exp2(x), log(x), log2(x), log10(x));
  printf("%.5g %.5g %.5g\n", pow(x, x), fmod(3 * x, 0.4), ldexp(x, 3));
  printf("%ld %lld %ld %lld\n", lround(5 * x), llround(-5 * x), lrint(5 * x), llrint(-5 * x));
  printf("%.5g %.5g %.5g %.5g\n", floor(x), ceil(x), round(x), sqrt(x));
}

static void of_float(float x) {
  printf("%.4g %.4g %.4g %.4g %.4g %.4g\n", sinf(x), cosf(x), tanf(x), asinf(x), acosf(x),
         atanf(x));
  printf("%.4g %.4g %.4g %.4g %.4g\n", sinhf(x), coshf(x), tanhf(x), atan2f(x, 2), hypotf(x, 2));
  printf("%.4g %.4g %.4g %.4g %.4g\n", expf(x), exp2f(x), logf(x), log2f(x), log10f(x));
  printf("%.4g %.4g %.4g\n", powf(x, x), fmodf(3 * x, 0.4F), ldexpf(x, 3));
  printf("%ld %lld %ld %lld\n", lroundf(5 * x), llroundf(-5 * x), lrintf(5 * x), llrintf(-5 * x));
}

int main(int argc, char** argv) {
  double const x = argc > 1 ? atof(argv[1]) : 0.73;
  of_double(x);
  of_float((float)x);
  return 0;
}
