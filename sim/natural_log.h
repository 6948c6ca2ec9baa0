#pragma once
// The natural logarithm, the same on every machine: mathematical libraries differ in the last bit,
// also between processors, and a start time that differs by a picosecond changes a whole history.
#include <cmath>

namespace spindrift::sim {

// Of a positive number; within a few units of the last place.
inline double natural_log(double x) {
  constexpr double kLn2 = 0.693147180559945309417232121458;
  constexpr double kSqrtHalf = 0.707106781186547524400844362105;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  // 2 artanh(s) with |s| <= 0.172: the last term is below 2^-60.
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int odd = 23; odd >= 1; odd -= 2)
    sum = sum * square + 1.0 / odd;
  return 2 * s * sum + exponent * kLn2;
}

}  // namespace spindrift::sim
