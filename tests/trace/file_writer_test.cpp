// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/file_writer.hpp"

#include "trace/codec.hpp"
#include "trace/trace_files.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

namespace quarry::test {
namespace {

using trace::event;
using trace::event_kind;
using trace::file_writer;
using trace::name_tables;
namespace codec = trace::codec;

std::uint64_t random_number(std::mt19937_64& random) {
  return random() >> (random() % 64) >> (random() % 2);
}

/// An event whose numbers `names` has.
event random_event(std::mt19937_64& random, name_tables const& names, event const& before) {
  auto const number = [&](trace::name_table const& table) {
    return static_cast<std::uint32_t>(random() % table.size());
  };
  event result;
  result.kind = static_cast<event_kind>(random() % trace::event_kinds);
  result.time = random() % 4 == 0 ? random_number(random) : before.time + random() % 10'000;
  result.address = random() % 2 == 0 ? random_number(random) : before.address + 512;
  result.size = result.kind == event_kind::wait ? number(names.streams) : random_number(random);
  if (random() % 2 == 0) result.granted = random_number(random);
  if (random() % 2 == 0) result.call_site = number(names.call_sites);
  result.thread = random() % 4 == 0 ? number(names.threads) : before.thread;
  result.stream = random() % 4 == 0 ? number(names.streams) : before.stream;
  result.allocator = random() % 4 == 0 ? number(names.allocators) : before.allocator;
  return result;
}

void add_random_names(std::mt19937_64& random, name_tables& names) {
  for (auto* table : {&names.call_sites, &names.allocators, &names.threads, &names.streams}) {
    for (auto left = random() % 3; left > 0; --left)
      table->add(std::string(random() % 40, static_cast<char>(random())));
  }
}

void expect_same_names(name_tables const& found, name_tables const& expected) {
  EXPECT_EQ(found.call_sites.names(), expected.call_sites.names());
  EXPECT_EQ(found.allocators.names(), expected.allocators.names());
  EXPECT_EQ(found.threads.names(), expected.threads.names());
  EXPECT_EQ(found.streams.names(), expected.streams.names());
}

/// A file of four chunks: names, two events, names, three events.
struct small_file {
  small_file() {
    names.call_sites.add("main.cpp:3 main");
    names.streams.add("s1");
    events = {{.time = 5, .address = 4096, .size = 100, .stream = 1, .call_site = 1},
              {.time = 9, .address = 4096, .kind = event_kind::deallocate}};
    {
      file_writer writer{file.path()};
      writer.add(events, names);
      writer.flush();
      names.threads.add("worker");
      names.call_sites.add("other.cpp:4 work");
      std::vector<event> const later{
          {.time = 11, .address = 8192, .size = 64, .granted = 512, .thread = 1, .call_site = 2},
          {.time = 12, .size = 1, .stream = 1, .kind = event_kind::wait},
          {.time = 13, .address = 8192, .size = 64, .kind = event_kind::deallocate}};
      writer.add(later, names);
      events.insert(events.end(), later.begin(), later.end());
      writer.close();
    }
    bytes = file.contents();
    for (std::size_t at = codec::file_header_bytes; at < bytes.size();) {
      auto const* const header = reinterpret_cast<unsigned char const*>(bytes.data() + at);
      at += codec::chunk_header_bytes + codec::load32(header + 8);
      chunk_ends.push_back(at);
      event_counts.push_back((header[4] == 1 ? codec::load32(header + 12) : 0) +
                             (event_counts.empty() ? 0 : event_counts.back()));
    }
  }
  temporary_file file;
  std::string bytes;
  name_tables names;
  std::vector<event> events;
  std::vector<std::size_t> chunk_ends, event_counts;  // event_counts: until the end of the chunk
};

TEST(FileWriter, WritesAnEmptyTraceThatReadsAsNoEvents) {
  temporary_file const file;
  file_writer{file.path()}.close();
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events.empty());
  EXPECT_TRUE(found.problems.empty());
}

TEST(FileWriter, WritesTheHeaderThatTheSpecificationSays) {
  small_file const file;
  EXPECT_EQ(file.bytes.substr(0, 16), (std::string{"QUARRYTR\1\0\0\0\0\0\0\0", 16}));
  EXPECT_EQ(file.bytes.substr(16, 8), (std::string{"QTCK\2\0\0\0", 8}));
  EXPECT_EQ(file.event_counts, (std::vector<std::size_t>{0, 2, 2, 5}));
}

/// The published check values of CRC-32C (RFC 3720, B.4, and the catalogue's "123456789").
TEST(Codec, ComputesCrc32c) {
  auto const crc = [](std::string_view text) {
    return codec::crc32c({reinterpret_cast<unsigned char const*>(text.data()), text.size()});
  };
  EXPECT_EQ(crc("123456789"), 0xe3069283u);
  EXPECT_EQ(crc(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc(""), 0u);
}

TEST(Codec, RefusesVarintsThatExceed64BitsOrEndEarly) {
  auto const read = [](std::string_view text) -> std::optional<std::uint64_t> {
    auto const* at = reinterpret_cast<unsigned char const*>(text.data());
    std::uint64_t value = 0;
    if (!codec::read_varint(at, at + text.size(), value)) return std::nullopt;
    return value;
  };
  EXPECT_EQ(read("\x05"), 5u);
  EXPECT_EQ(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ~std::uint64_t{0});
  EXPECT_EQ(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), std::nullopt);
  EXPECT_EQ(read("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), std::nullopt);
  EXPECT_EQ(read("\x80"), std::nullopt);
  EXPECT_EQ(read(""), std::nullopt);
}

TEST(FileWriter, RandomEventsAndNamesReadBackUnchanged) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  for (int round = 0; round < 8; ++round) {
    temporary_file const file;
    std::vector<event> events;
    name_tables names;
    {
      file_writer writer{file.path()};
      for (int batches = static_cast<int>(random() % 30); batches >= 0; --batches) {
        add_random_names(random, names);
        std::vector<event> batch(random() % 2000);
        for (event& each : batch)
          each = random_event(random, names, events.empty() ? event{} : events.back());
        writer.add(batch, names);
        if (random() % 4 == 0) writer.flush();
        events.insert(events.end(), batch.begin(), batch.end());
        ASSERT_EQ(writer.events(), events.size());
      }
    }  // the destructor writes what is left
    auto const found = read_all(file.path(), 1 + random() % 10'000);
    ASSERT_EQ(found.events.size(), events.size());
    ASSERT_TRUE(found.events == events);
    expect_same_names(found.names, names);
    EXPECT_TRUE(found.problems.empty());
  }
}

TEST(FileWriter, AFileCutAtAnyByteKeepsAllWholeChunks) {
  small_file const file;
  temporary_file const cut;
  for (std::size_t size = codec::file_header_bytes; size < file.bytes.size(); ++size) {
    SCOPED_TRACE("cut at " + std::to_string(size));
    cut.write(file.bytes.substr(0, size));
    std::size_t expected = 0;
    std::size_t begin = codec::file_header_bytes;  // of the chunk that is cut
    for (std::size_t i = 0; i < file.chunk_ends.size() && file.chunk_ends[i] <= size; ++i) {
      expected = file.event_counts[i];
      begin = file.chunk_ends[i];
    }
    auto const found = read_all(cut.path());
    ASSERT_EQ(found.events.size(), expected);
    ASSERT_TRUE(std::equal(found.events.begin(), found.events.end(), file.events.begin()));
    if (begin == size) {
      EXPECT_TRUE(found.problems.empty());
    } else {
      ASSERT_EQ(found.problems.size(), 1u);
      EXPECT_EQ(found.problems[0], cut.path() + ", offset " + std::to_string(begin) +
                                       ": the last chunk is incomplete or damaged; its events "
                                       "are lost");
    }
  }
  for (std::size_t size = 8; size < codec::file_header_bytes; ++size) {
    cut.write(file.bytes.substr(0, size));
    EXPECT_EQ(message_of([&] { (void)read_all(cut.path()); }),
              cut.path() + ": the file ends inside the header, which has 16 bytes");
  }
}

TEST(FileWriter, AChangedByteCostsOneChunkAndInventsNoEvent) {
  small_file const file;
  temporary_file const damaged;
  for (std::size_t at = codec::file_header_bytes; at < file.bytes.size(); ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    std::string bytes = file.bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    damaged.write(bytes);
    std::size_t chunk = 0;
    while (file.chunk_ends[chunk] <= at) ++chunk;
    std::size_t const first = chunk == 0 ? 0 : file.event_counts[chunk - 1];
    std::vector<event> expected = file.events;
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(first),
                   expected.begin() + static_cast<std::ptrdiff_t>(file.event_counts[chunk]));
    auto const found = read_all(damaged.path());
    ASSERT_TRUE(found.events == expected) << found.events.size() << " events";
    std::size_t const begin = chunk == 0 ? codec::file_header_bytes : file.chunk_ends[chunk - 1];
    ASSERT_EQ(found.problems.size(), 1u);
    EXPECT_TRUE(
        found.problems[0].starts_with(damaged.path() + ", offset " + std::to_string(begin) + ": "))
        << found.problems[0];
  }
}

TEST(FileWriter, ALostChunkOfNamesCostsTheNamesAndNoEvent) {
  small_file const file;
  std::string bytes = file.bytes;
  bytes[codec::file_header_bytes + codec::chunk_header_bytes] ^= 1;  // the first chunk's payload
  temporary_file const damaged{bytes};
  auto const found = read_all(damaged.path());
  EXPECT_TRUE(found.events == file.events);
  EXPECT_EQ(found.names.call_sites.names(),
            (std::vector<std::string>{"", "lost name 1", "other.cpp:4 work"}));
}

TEST(FileWriter, RandomDamageInventsNoEvent) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  small_file const file;
  temporary_file const damaged;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = file.bytes;
    auto const position = [&] {
      return codec::file_header_bytes + random() % (bytes.size() - codec::file_header_bytes + 1);
    };
    switch (random() % 3) {
      case 0:
        bytes.erase(position(), random() % 40);
        break;
      case 1:
        bytes.insert(position(), bytes.substr(position(), random() % 40));
        break;
      default:
        bytes.insert(position(), std::string(random() % 9, static_cast<char>(random())));
    }
    damaged.write(bytes);
    auto const found = read_all(damaged.path());
    for (event const& each : found.events)
      ASSERT_NE(std::find(file.events.begin(), file.events.end(), each), file.events.end());
    if (bytes == file.bytes) {
      ASSERT_TRUE(found.problems.empty());
    }
  }
}

TEST(FileWriter, AFileThatEndsWithAnotherFileKeepsBothEvents) {
  small_file const file;
  temporary_file const joined{file.bytes + file.bytes};
  auto const found = read_all(joined.path());
  EXPECT_EQ(found.events.size(), 2 * file.events.size());
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_TRUE(found.problems[0].ends_with("a chunk is damaged; 16 bytes are skipped"))
      << found.problems[0];
}

TEST(FileWriter, RefusesAPathInAFolderThatDoesNotExist) {
  EXPECT_EQ(message_of([] { file_writer{"/nonexistent/trace"}; }),
            "/nonexistent/trace: cannot create the file: No such file or directory");
}

TEST(FileWriter, RefusesAnEmptyPath) {
  EXPECT_THROW(file_writer{""}, bad_argument);
  EXPECT_EQ(message_of([] { file_writer{""}; }),
            "trace file: the path is empty; name the file to write");
}

TEST(FileWriter, ReportsAFullDevice) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(message_of([] {
              file_writer writer{"/dev/full"};
              writer.close();
            }),
            "/dev/full: cannot write the file: No space left on device");
}

TEST(FileWriter, ACrashCostsNoChunkThatIsFull) {
  temporary_file const file;
  run_and_crash([&] {
    auto* const writer = new file_writer{file.path()};  // its destructor does not run
    std::vector<event> const events(3 * file_writer::events_per_chunk + 5);
    writer->add(events, {});
  });
  auto const found = read_all(file.path());
  EXPECT_EQ(found.events.size(), 3 * file_writer::events_per_chunk);
  EXPECT_TRUE(found.problems.empty());
}

/// The limit on the size of files fails a write as a full disk does.
TEST(FileWriter, WritesNamesAgainAfterAnError) {
  temporary_file const file;
  run_and_crash([&] {
    (void)std::signal(SIGXFSZ, SIG_IGN);
    file_writer writer{file.path()};
    name_tables names;
    names.call_sites.add(std::string(5000, 'a'));
    rlimit old = {};
    getrlimit(RLIMIT_FSIZE, &old);
    rlimit const limit{1000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<event> const events{{.time = 1, .call_site = 1}};
    if (message_of([&] { writer.add(events, names); }).empty()) _exit(1);
    setrlimit(RLIMIT_FSIZE, &old);
    writer.add(events, names);
    writer.close();
  });
  auto const found = read_all(file.path());
  ASSERT_EQ(found.events.size(), 1u);
  EXPECT_EQ(found.names.call_sites.name(1), std::string(5000, 'a'));
  EXPECT_EQ(found.problems.size(), 1u) << "the chunk that was written in part";
}

TEST(FileWriter, RefusesEventsAfterClose) {
  temporary_file const file;
  file_writer writer{file.path()};
  writer.close();
  writer.close();
  writer.flush();
  EXPECT_EQ(message_of([&] { writer.add({}, {}); }), file.path() + ": the trace file is closed");
}

TEST(FileWriter, TwoWritersOfTwoFilesAreIndependent) {
  temporary_file const first, second;
  name_tables names;
  names.call_sites.add("site");
  {
    file_writer one{first.path()}, other{second.path()};
    for (std::uint64_t i = 0; i < 100; ++i) {
      std::vector<event> const events{{.time = i, .address = i, .call_site = 1}};
      (i % 3 == 0 ? one : other).add(events, names);
    }
  }
  auto const found = read_all(first.path());
  EXPECT_EQ(found.events.size(), 34u);
  EXPECT_EQ(found.names.call_sites.name(1), "site");
  EXPECT_EQ(read_all(second.path()).events.size(), 66u);
}

TEST(FileWriter, SplitsNamesThatExceedAChunk) {
  temporary_file const file;
  name_tables names;
  for (int i = 0; i < 12; ++i)
    names.call_sites.add(std::string(1 << 20, static_cast<char>('a' + i)));
  file_writer writer{file.path()};
  writer.add({}, names);
  writer.close();
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(found.names.call_sites.names(), names.call_sites.names());
}

}  // namespace
}  // namespace quarry::test
