/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of <complex.h> for the GPU, over the CUDA toolkit's real functions. The build makes bitcode of it, of which
   quarry-mpicc joins what a program calls. On the CPU the host's C library serves them. Results are within a few units in the last
   place; infinities and NaN follow from the formulas, not in each case as in Annex G of the C standard. */
#include <complex.h>
#include <math.h>

#ifndef NAME
#define NAME(function) function
#endif

typedef double complex number;

static number make(double real, double imaginary) {
  number z;
  __real__ z = real;
  __imag__ z = imaginary;
  return z;
}
static double re(number z) { return __real__ z; }
static double im(number z) { return __imag__ z; }
static number times_i(number z) { return make(-im(z), re(z)); }
static number times_minus_i(number z) { return make(im(z), -re(z)); }

static double size_of(number z) { return hypot(re(z), im(z)); }
static double angle_of(number z) { return atan2(im(z), re(z)); }

static number exponential(number z) {
  double const largest = 700; /* exp of this is finite */
  double x = re(z), scale = 1;
  if (x > largest) {
    scale = exp(largest);
    x -= largest;
  }
  double const size = exp(x);
  if (im(z) == 0) return make(size * scale, im(z));
  return make(size * cos(im(z)) * scale, size * sin(im(z)) * scale);
}

static number logarithm(number z) {
  double const size = size_of(z);
  if (size < 0.5 || size > 2 || isnan(size)) return make(log(size), angle_of(z));
  double const x = fabs(re(z)), y = fabs(im(z));
  double const larger = x > y ? x : y, smaller = x > y ? y : x;
  return make(log1p((larger - 1) * (larger + 1) + smaller * smaller) / 2, angle_of(z));
}

static number root(number z) {
  if (re(z) == 0 && im(z) == 0) return make(0, im(z));
  double x = re(z), y = im(z), scale = 1;
  double const size = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
  if (isinf(size)) return isinf(y) ? make(size, y) : x > 0 ? make(x, copysign(0, y)) : make(0, copysign(size, y));
  if (size > 1e300) {
    x /= 16;
    y /= 16;
    scale = 4;
  } else if (size < 1e-290) {
    x *= 0x1p200;
    y *= 0x1p200;
    scale = 0x1p-100;
  }
  double const larger = sqrt((fabs(x) + hypot(x, y)) / 2);
  double const smaller = fabs(y) / (2 * larger);
  return x >= 0 ? make(larger * scale, copysign(smaller * scale, y)) : make(smaller * scale, copysign(larger * scale, y));
}

static number power(number base, number exponent) {
  if (re(base) == 0 && im(base) == 0) return re(exponent) == 0 && im(exponent) == 0 ? 1 : 0;
  return exponential(exponent * logarithm(base));
}

static number hyperbolic_sine(number z) { return make(sinh(re(z)) * cos(im(z)), cosh(re(z)) * sin(im(z))); }
static number hyperbolic_cosine(number z) { return make(cosh(re(z)) * cos(im(z)), sinh(re(z)) * sin(im(z))); }
static number hyperbolic_tangent(number z) {
  double const x = re(z), sine = sin(im(z)), cosine = cos(im(z));
  if (fabs(x) > 20) return make(copysign(1, x), 4 * sine * cosine * exp(-2 * fabs(x)));
  double const part = sinh(x), divisor = cosine * cosine + part * part;
  return make(part * cosh(x) / divisor, sine * cosine / divisor);
}
static number sine(number z) { return times_minus_i(hyperbolic_sine(times_i(z))); }
static number cosine(number z) { return hyperbolic_cosine(times_i(z)); }
static number tangent(number z) { return times_minus_i(hyperbolic_tangent(times_i(z))); }

/* After W. Kahan, "Branch cuts for complex elementary functions": roots of 1 - z and 1 + z instead of one of 1 - z^2. */
static number arc_sine(number z) {
  number const a = root(make(1 - re(z), -im(z))), b = root(make(1 + re(z), im(z)));
  double const real = re(a) * re(b) - im(a) * im(b);
  return make(atan2(re(z), real), asinh(re(a) * im(b) - im(a) * re(b)));
}
static number arc_cosine(number z) {
  number const a = root(make(1 - re(z), -im(z))), b = root(make(1 + re(z), im(z)));
  return make(2 * atan2(re(a), re(b)), asinh(re(b) * im(a) - im(b) * re(a)));
}
static number area_cosine(number z) {
  number const a = root(make(re(z) - 1, im(z))), b = root(make(re(z) + 1, im(z)));
  return make(asinh(re(a) * re(b) + im(a) * im(b)), 2 * atan2(im(a), re(b)));
}
static number area_tangent(number z) {
  double const x = re(z), y = im(z);
  double const distance = 1 - fabs(x);
  double const real = log1p(4 * fabs(x) / (distance * distance + y * y)) / 4;
  return make(copysign(real, x), atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2);
}
static number area_sine(number z) { return times_i(arc_sine(times_minus_i(z))); }
static number arc_tangent(number z) { return times_minus_i(area_tangent(times_i(z))); }
static number projection(number z) { return isinf(re(z)) || isinf(im(z)) ? make(INFINITY, copysign(0, im(z))) : z; }
static number conjugate(number z) { return make(re(z), -im(z)); }

#define REAL_FUNCTION(name, body)                            \
  double NAME(name)(double complex z) { return body(z); }    \
  float NAME(name##f)(float complex z) { return (float)body(z); }
#define FUNCTION(name, body)                                         \
  double complex NAME(name)(double complex z) { return body(z); }    \
  float complex NAME(name##f)(float complex z) { return (float complex)body(z); }

REAL_FUNCTION(cabs, size_of)
REAL_FUNCTION(carg, angle_of)
REAL_FUNCTION(creal, re)
REAL_FUNCTION(cimag, im)
FUNCTION(conj, conjugate)
FUNCTION(cproj, projection)
FUNCTION(cexp, exponential)
FUNCTION(clog, logarithm)
FUNCTION(csqrt, root)
FUNCTION(csin, sine)
FUNCTION(ccos, cosine)
FUNCTION(ctan, tangent)
FUNCTION(csinh, hyperbolic_sine)
FUNCTION(ccosh, hyperbolic_cosine)
FUNCTION(ctanh, hyperbolic_tangent)
FUNCTION(casin, arc_sine)
FUNCTION(cacos, arc_cosine)
FUNCTION(catan, arc_tangent)
FUNCTION(casinh, area_sine)
FUNCTION(cacosh, area_cosine)
FUNCTION(catanh, area_tangent)

double complex NAME(cpow)(double complex base, double complex exponent) { return power(base, exponent); }
float complex NAME(cpowf)(float complex base, float complex exponent) { return (float complex)power(base, exponent); }
