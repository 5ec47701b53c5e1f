// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace quarry::compiler {

/// Lets the program end with a report if it divides an integer by zero: a GPU gives a number and
/// goes on. A comparison precedes each division and remainder, unless the divisor is known not to
/// be zero there. The report has the place in the source. Appends these places to `places`, whose
/// indices are the numbers that the report knows.
///
/// Comes after optimisation, so that a division that is never made has no comparison. The smallest
/// integer divided by -1 is no error here: a GPU gives the smallest integer.
void report_zero_divisors(llvm::Module& module, std::vector<std::string>& places);

}  // namespace quarry::compiler
