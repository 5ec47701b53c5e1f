// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace quarry::compiler {

/// An error of the user's program or options. An empty text means that a program which the driver
/// ran has reported the error.
struct failure {
  std::string text;
};

}  // namespace quarry::compiler
