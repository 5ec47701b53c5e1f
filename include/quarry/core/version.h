/* SPDX-License-Identifier: Apache-2.0 */
/* The version of these headers, for C and C++. CMake reads the project's version from here.
 * Versions follow SemVer 2.0 (CONTRIBUTING.md, "Versions"). */
#ifndef QUARRY_CORE_VERSION_H
#define QUARRY_CORE_VERSION_H

#define QUARRY_VERSION_MAJOR 0
#define QUARRY_VERSION_MINOR 1
#define QUARRY_VERSION_PATCH 0

/* The version as one number: 1.2.3 is 10203. A later version has a larger number. */
#define QUARRY_VERSION \
  (QUARRY_VERSION_MAJOR * 10000 + QUARRY_VERSION_MINOR * 100 + QUARRY_VERSION_PATCH)

#define QUARRY_VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch
#define QUARRY_VERSION_TEXT_OF_MACROS(major, minor, patch) \
  QUARRY_VERSION_TEXT_OF(major, minor, patch)
/* The same as a string literal: "1.2.3". */
#define QUARRY_VERSION_TEXT \
  QUARRY_VERSION_TEXT_OF_MACROS(QUARRY_VERSION_MAJOR, QUARRY_VERSION_MINOR, QUARRY_VERSION_PATCH)

#endif
