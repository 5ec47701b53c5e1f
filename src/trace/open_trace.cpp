// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"
#include "trace/format_hint.hpp"
#include "trace/pytorch_snapshot.hpp"
#include "trace/quarry_reader.hpp"
#include "trace/rmm_log.hpp"
#include "trace/text_log.hpp"
#include "trace/umpire_log.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// The bytes that tell the format. A compressed file may be damaged behind them.
std::span<unsigned char const> first_bytes(byte_source& source) {
  try {
    return source.peek(4096);
  } catch (bad_trace const&) {
    if (source.read_ahead().empty()) throw;
    return source.read_ahead();
  }
}

}  // namespace

char const* name_of(format file_format) {
  switch (file_format) {
    case format::quarry:
      return "quarry";
    case format::pytorch:
      return "pytorch";
    case format::rmm:
      return "rmm";
    case format::umpire:
      return "umpire";
    case format::text:
      return "text";
  }
  return "unknown";
}

std::unique_ptr<reader> open_trace(std::string const& path) {
  auto source = std::make_unique<byte_source>(path);
  auto const first = first_bytes(*source);
  if (first.empty()) throw bad_trace{path + ": the file is empty"};
  if (looks_like_quarry(first)) return open_quarry(std::move(source));
  if (looks_like_pickle(first)) return open_pytorch(std::move(source));
  if (looks_like_rmm_log(first)) return open_rmm_log(std::move(source));
  if (looks_like_umpire_log(first)) return open_umpire_log(std::move(source));
  if (looks_like_text_log(first)) return open_text_log(std::move(source));
  std::string const hint{format_hint(first)};
  throw bad_trace{path + ": the format is unknown. " +
                  (hint.empty()
                       ? "Known are traces of Quarry, pickled snapshots of PyTorch, CSV logs of "
                         "RMM, JSON logs of Umpire, and lines 'a ID BYTES', 'f ID'"
                       : hint)};
}

}  // namespace quarry::inline QUARRY_ABI::trace
