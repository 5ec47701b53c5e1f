// SPDX-License-Identifier: Apache-2.0
#include "graph/edge_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>
#include <type_traits>

namespace quarry::graph_demo {
namespace edge_list_test {

using namespace std::string_view_literals;
using random_source = std::mt19937_64;

static_assert(std::is_trivially_copyable_v<edge> && std::is_aggregate_v<edge>);

std::string gzip(std::string_view text) {
  constexpr int gzip_format = 15 + 16;
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, gzip_format, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// A file that exists during the test, in a folder of this process.
class EdgeList : public testing::Test {
 protected:
  EdgeList() { std::filesystem::create_directories(folder_); }
  ~EdgeList() override { std::filesystem::remove_all(folder_); }

  edge_list read(std::string_view content) {
    std::ofstream{file_, std::ios::binary} << content;
    return read_edge_list(file_);
  }

  /// The error message for `content` after the folder's name; empty if `content` is accepted.
  std::string refusal(std::string_view content) {
    try {
      read(content);
    } catch (malformed_input const& failure) {
      return std::string{failure.what()}.substr(folder_.string().size() + 1);
    }
    return {};
  }

  std::filesystem::path folder_ =
      std::filesystem::path{testing::TempDir()} / ("quarry_edge_list." + std::to_string(getpid()));
  std::filesystem::path file_ = folder_ / "graph";
};

/// The vertex id that `field` spells, or nothing if it is not a valid id.
std::optional<std::uint32_t> naive_id(std::string field) {
  if (field.empty() || !std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  field.erase(0, std::min(field.find_first_not_of('0'), field.size() - 1));
  if (field.size() > 10 || std::stoull(field) >= no_vertex) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoull(field));
}

struct naive_result {
  std::vector<edge> edges;
  std::size_t malformed_line = 0;  ///< 0 if there is none.
};

/// Reads an edge list with streams, line by line and then field by field, up to its first malformed
/// line.
naive_result read_naively(std::string const& text) {
  naive_result result;
  std::istringstream lines{text};
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    std::ranges::replace(line, '\t', ' ');
    std::istringstream rest{line};
    std::vector<std::string> fields;
    for (std::string field; std::getline(rest, field, ' ');) {
      if (!field.empty()) fields.push_back(field);
    }
    if (fields.empty() || fields[0].starts_with('#') || fields[0].starts_with('%')) continue;
    fields.resize(2);
    auto const source = naive_id(fields[0]);
    auto const target = naive_id(fields[1]);
    if (!source || !target) return {result.edges, number};
    result.edges.push_back({*source, *target});
  }
  return result;
}

std::vector<edge> random_edges(random_source& random, std::size_t count) {
  std::vector<edge> edges(count);
  auto const id = [&] {
    auto const bits = random() % 32 + 1;  // Gives short and long ids.
    return static_cast<std::uint32_t>(random() % ((std::uint64_t{1} << bits) - 1));
  };
  for (auto& added : edges) added = {id(), id()};
  return edges;
}

template <std::size_t Size>
std::string random_choice(random_source& random, char const* const (&choices)[Size]) {
  return choices[random() % Size];
}

/// Writes the edges in a random one of the many valid formats.
std::string write_at_random(random_source& random, std::vector<edge> const& edges) {
  std::string text;
  for (auto const& [source, target] : edges) {
    while (random() % 8 == 0)
      text += random_choice(random, {"\n", " \t\n", "# 1 2\n", "\t% x\r\n", "#\n"});
    text += random_choice(random, {"", "", " ", "\t "}) + random_choice(random, {"", "", "00"});
    text += std::to_string(source) + random_choice(random, {" ", "\t", " \t  "}) +
            std::to_string(target);
    text += random_choice(random, {"", "", " ", "\t3.5 x", " # y"}) +
            random_choice(random, {"\n", "\r\n"});
  }
  if (!text.empty() && random() % 2 == 0) text.pop_back();  // A last line without a line end.
  return text;
}

TEST_F(EdgeList, KeepsOrderDuplicatesAndLoopsOfAPlainFile) {
  auto const list = read("# a comment\n7 4294967294\n\n% another\n 0\t7 0.25 x\r\n7 7\n7 7");
  EXPECT_EQ(list.edges, (std::vector<edge>{{7, 4294967294}, {0, 7}, {7, 7}, {7, 7}}));
  EXPECT_EQ(list.declared_vertices, 0u);
}

TEST_F(EdgeList, IsEmptyForAnEmptyFile) {
  EXPECT_TRUE(read("").edges.empty());
  EXPECT_TRUE(read("# nothing\n").edges.empty());
  EXPECT_TRUE(read(gzip("")).edges.empty());
}

TEST_F(EdgeList, ReadsGzipInOneMemberOrSeveral) {
  EXPECT_EQ(read(gzip("1 2\n3 4\n")).edges, (std::vector<edge>{{1, 2}, {3, 4}}));
  EXPECT_EQ(read(gzip("1 2\n3 ") + gzip("4\n")).edges, (std::vector<edge>{{1, 2}, {3, 4}}));
}

TEST_F(EdgeList, ReadsAGeneralMatrixMarketFileWithIdsFromZero) {
  auto const list =
      read("%%MatrixMarket matrix coordinate real general\n% x\n3 5 2\n1 5 0.5\n3 3 -1e9\n");
  EXPECT_EQ(list.edges, (std::vector<edge>{{0, 4}, {2, 2}}));
  EXPECT_EQ(list.declared_vertices, 5u);
}

TEST_F(EdgeList, MirrorsTheEntriesOfASymmetricMatrixButNotItsDiagonal) {
  std::vector<edge> const expected{{1, 0}, {0, 1}, {2, 2}};
  std::string const banner = "%%matrixmarket MATRIX Coordinate ";
  EXPECT_EQ(read(banner + "pattern symmetric\n3 3 2\n2 1\n3 3\n").edges, expected);
  EXPECT_EQ(read(banner + "integer Symmetric\n3 3 2\n2 1 5\n3 3 5\n").edges, expected);
  EXPECT_EQ(read(gzip(banner + "complex symmetric\n3 3 2\n2 1 5 0\n3 3 5 0\n")).edges, expected);
}

TEST_F(EdgeList, RefusesAMalformedLineByNumberAndText) {
  std::string const range = " is not an integer from 0 to 4294967294";
  EXPECT_EQ(refusal("1 2\n# x\n3 abc\n"), "graph:3: target \"abc\"" + range);
  EXPECT_EQ(refusal("1.5 2\n"), "graph:1: source \"1.5\"" + range);
  EXPECT_EQ(refusal("-1 2\n"), "graph:1: source \"-1\"" + range);
  EXPECT_EQ(refusal("1,2\n"), "graph:1: source \"1,2\"" + range);
  EXPECT_EQ(refusal("1 2\r3 4\n"), "graph:1: target \"2\\x0d3\"" + range);
  EXPECT_EQ(refusal("\n12\n"), "graph:2: no target in \"12\"");
  EXPECT_EQ(refusal("1 99999999999999999999999\n"),
            "graph:1: target \"99999999999999999999999\"" + range);
  EXPECT_EQ(refusal(std::string(100, 'x')),
            "graph:1: source \"" + std::string(60, 'x') + "...\"" + range);
}

TEST_F(EdgeList, RefusesTheReservedId) {
  EXPECT_NE(refusal("4294967295 1"), "");
  EXPECT_NE(refusal("1 4294967295"), "");
  EXPECT_EQ(refusal("1 4294967294"), "");
}

TEST_F(EdgeList, RefusesAnUnreadableFile) {
  EXPECT_THROW((void)read_edge_list(folder_ / "missing"), std::filesystem::filesystem_error);
  EXPECT_THROW((void)read_edge_list(folder_), std::filesystem::filesystem_error);
}

TEST_F(EdgeList, RefusesGzipThatIsTruncatedOrDamaged) {
  auto const packed = gzip("1 2\n3 4\n5 6\n");
  for (std::size_t size = 2; size != packed.size(); ++size) {
    EXPECT_TRUE(refusal(packed.substr(0, size)).ends_with(": the gzip data ends too soon")) << size;
  }
  auto damaged = packed;
  damaged[damaged.size() - 8] ^= 1;  // In the checksum.
  EXPECT_TRUE(refusal(damaged).ends_with(": the gzip data is damaged"));
}

TEST_F(EdgeList, ReportsAMalformedLineBeforeATruncation) {
  std::string const text = "1 2\nx\n" + std::string(1000, '\n') + "3 4\n";
  auto const packed = gzip(text);
  EXPECT_EQ(refusal(packed.substr(0, packed.size() - 1)).substr(0, 8), "graph:2:");
}

TEST_F(EdgeList, RefusesALineThatDoesNotFitItsBuffer) {
  std::string const megabyte(std::size_t{1} << 20, ' ');
  EXPECT_EQ(read("1 2\n3 4" + megabyte.substr(100) + "\n5 6\n").edges.size(), 3u);
  EXPECT_EQ(refusal("1 2\n3 4" + megabyte + "\n").substr(0, 21), "graph:2: longer than ");
}

TEST_F(EdgeList, RefusesAMatrixMarketFileThatContradictsItsHeader) {
  auto const pattern = [this](std::string const& rest) {
    return refusal("%%MatrixMarket matrix coordinate pattern general\n" + rest);
  };
  EXPECT_EQ(pattern("2 2 1\n3 1\n"), "graph:3: row \"3\" is not an integer from 1 to 2");
  EXPECT_EQ(pattern("2 2 1\n1 0\n"), "graph:3: column \"0\" is not an integer from 1 to 2");
  EXPECT_EQ(pattern("2 2 3\n1 1\n"), "graph:3: the file ends after 1 of 3 entries");
  EXPECT_EQ(pattern("2 2 1\n1 1\n2 2\n"), "graph:4: more than the 1 entries promised: \"2 2\"");
  EXPECT_EQ(pattern("2 2\n"), "graph:2: no number of entries in \"2 2\"");
  EXPECT_EQ(pattern("2 2 1 9\n"), "graph:2: the size line goes on after three numbers: \"9\"");
  EXPECT_EQ(pattern("% only comments"), "graph:2: no size line");
  EXPECT_EQ(pattern("1 1 18446744073709551615\n1 1\n"),
            "graph:3: the file ends after 1 of 18446744073709551615 entries");
  EXPECT_EQ(refusal("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2\n"),
            "graph:3: no value in \"1 2\"");
  EXPECT_EQ(refusal("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 0.5\n"),
            "graph:3: no value in \"1 2 0.5\"");
  EXPECT_EQ(refusal("%%MatrixMarket matrix coordinate pattern symmetric\n2 3 0\n"),
            "graph:2: a symmetric matrix must be square");
}

TEST_F(EdgeList, RefusesAMatrixThatIsNotAGraph) {
  EXPECT_EQ(refusal("%%MatrixMarket matrix array real general\n"),
            "graph:1: format \"array\" is not among: coordinate");
  EXPECT_EQ(refusal("%%MatrixMarket matrix coordinate real hermitian\n"),
            "graph:1: symmetry \"hermitian\" is not among: general symmetric");
  EXPECT_EQ(refusal("%%MatrixMarket matrix coordinate real"),
            "graph:1: symmetry \"\" is not among: general symmetric");
}

TEST_F(EdgeList, ReadsTheSameEdgesFromEveryFormat) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random{seed};
    auto const edges = random_edges(random, random() % 2000);
    auto const text = write_at_random(random, edges);
    edge_list list;
    ASSERT_NO_THROW(list = read(random() % 2 == 0 ? text : gzip(text)));
    ASSERT_EQ(list.edges, edges);
  }
}

TEST_F(EdgeList, ReadsEveryLineOfAFileLargerThanItsBuffer) {
  std::uint64_t const seed = 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_source random{seed};
  auto const edges = random_edges(random, 200'000);
  auto const text = write_at_random(random, edges);
  ASSERT_GT(text.size(), std::size_t{3} << 20);
  EXPECT_EQ(read(text).edges, edges);
  EXPECT_EQ(read(gzip(text)).edges, edges);
}

TEST_F(EdgeList, AgreesWithTheNaiveReaderOnADamagedFile) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random{seed};
    auto text = write_at_random(random, random_edges(random, 1 + random() % 10));
    for (auto damages = 1 + random() % 3; damages != 0 && !text.empty(); --damages) {
      constexpr std::string_view characters = "09 \t\n\r#%-+.x\0\xff"sv;
      text[random() % text.size()] = characters[random() % characters.size()];
    }
    auto const expected = read_naively(text);
    if (expected.malformed_line == 0) {
      edge_list list;
      ASSERT_NO_THROW(list = read(text)) << text;
      ASSERT_EQ(list.edges, expected.edges) << text;
    } else {
      auto const location = "graph:" + std::to_string(expected.malformed_line) + ':';
      ASSERT_EQ(refusal(text).substr(0, location.size()), location) << text;
    }
  }
}

}  // namespace edge_list_test
}  // namespace quarry::graph_demo
