// SPDX-License-Identifier: Apache-2.0
// Shorthands for the rows of the tables of functions.
#pragma once

#include "call_models.hpp"

namespace quarry::compiler::model_rows {

using enum model;
using enum returned;

constexpr std::uint16_t word = 4;     // int and MPI's handles
constexpr std::uint16_t status = 24;  // MPI_Status

/// Bytes of a buffer: `count` elements of `type`.
constexpr effect buffer(std::int8_t argument, model value, std::int8_t count, std::int8_t type) {
  return {argument, value, count, type};
}
/// `count` elements for each rank, one rank after the other.
constexpr effect parts(std::int8_t argument, model value, std::int8_t count, std::int8_t type) {
  return {argument, value, count, type, 0, false, of_ranks::in_order};
}
/// Elements for each rank, at places that an argument has.
constexpr effect places(std::int8_t argument, model value, std::int8_t type) {
  return {argument, value, -1, type, 0, false, of_ranks::at_places};
}
constexpr effect object(std::int8_t argument, model value, std::uint16_t bytes) {
  return {argument, value, -1, -1, bytes};
}
/// An array of unknown length.
constexpr effect array(std::int8_t argument, model value) { return {argument, value}; }
/// What the argument and all after it point to.
constexpr effect all_from(std::int8_t argument, model value) {
  return {argument, value, -1, -1, 0, true};
}

}  // namespace quarry::compiler::model_rows
