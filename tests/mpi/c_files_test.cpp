// SPDX-License-Identifier: Apache-2.0
// Files of a rank against those of the host's C library.
#include "mpi/c_files.hpp"
#include "mpi/support/one_rank.hpp"

#include <unistd.h>
#include <cstdio>

extern "C" {
quarry::mpi::c_file* quarry_c_fopen(char const*, char const*);
int quarry_c_fclose(quarry::mpi::c_file*);
int quarry_c_fflush(quarry::mpi::c_file*);
int quarry_c_fgetc(quarry::mpi::c_file*);
int quarry_c_ungetc(int, quarry::mpi::c_file*);
char* quarry_c_fgets(char*, int, quarry::mpi::c_file*);
int quarry_c_fputs(char const*, quarry::mpi::c_file*);
int quarry_c_fprintf(quarry::mpi::c_file*, char const*, ...);
int quarry_c_fscanf(quarry::mpi::c_file*, char const*, ...);
unsigned long quarry_c_fread(void*, unsigned long, unsigned long, quarry::mpi::c_file*);
unsigned long quarry_c_fwrite(void const*, unsigned long, unsigned long, quarry::mpi::c_file*);
int quarry_c_fseek(quarry::mpi::c_file*, long, int);
long quarry_c_ftell(quarry::mpi::c_file*);
int quarry_c_feof(quarry::mpi::c_file*);
int quarry_c_ferror(quarry::mpi::c_file*);
long quarry_c_getline(char**, unsigned long*, quarry::mpi::c_file*);
int quarry_c_remove(char const*);
quarry::mpi::c_file** quarry_c_address_of_stdout();
quarry::mpi::c_file** quarry_c_address_of_stderr();
int* quarry_c___errno_location();
}

namespace quarry::mpi_test {
namespace {

class CFiles : public OneRank {
 protected:
  CFiles() {
    char name[] = "/tmp/quarry_c_files_XXXXXX";
    close(mkstemp(name));
    path_ = name;
  }
  ~CFiles() override { std::remove(path_.c_str()); }
  std::string path_;
};

TEST_F(CFiles, DoesRandomStepsAsTheHost) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    chooser choose{seed};
    std::FILE* const expected = std::tmpfile();
    c_file* const actual = quarry_c_fopen(path_.c_str(), "w+");
    ASSERT_NE(actual, nullptr);
    std::vector<char> data(9000);
    std::vector<char> other(9000);
    for (int step = 0; step < 200; ++step) {
      auto const size =
          static_cast<unsigned long>(choose.below(3) == 0 ? choose.below(9000) : choose.below(50));
      long const length = std::ftell(expected);
      ASSERT_EQ(quarry_c_ftell(actual), length) << "seed " << seed << ", step " << step;
      switch (choose.below(4)) {
        case 0:
          for (auto& c : data) c = static_cast<char>(choose.word());
          std::fseek(expected, 0, SEEK_CUR);
          quarry_c_fseek(actual, 0, SEEK_CUR);
          std::fwrite(data.data(), 1, size, expected);
          ASSERT_EQ(quarry_c_fwrite(data.data(), 1, size, actual), size);
          break;
        case 1: {
          std::fseek(expected, 0, SEEK_CUR);
          auto const got = std::fread(data.data(), 1, size, expected);
          quarry_c_fseek(actual, 0, SEEK_CUR);
          ASSERT_EQ(quarry_c_fread(other.data(), 1, size, actual), got);
          ASSERT_TRUE(
              std::equal(data.begin(), data.begin() + static_cast<long>(got), other.begin()));
          ASSERT_EQ(quarry_c_feof(actual) != 0, std::feof(expected) != 0);
          break;
        }
        case 2: {
          long const offset = choose.below(10000);
          int const origin = choose.below(2) == 0 ? SEEK_SET : SEEK_CUR;
          std::fseek(expected, offset, origin);
          quarry_c_fseek(actual, offset, origin);
          break;
        }
        default:
          std::fseek(expected, -10, SEEK_END);
          quarry_c_fseek(actual, -10, SEEK_END);
      }
    }
    std::fclose(expected);
    EXPECT_EQ(quarry_c_fclose(actual), 0);
  }
}

TEST_F(CFiles, WritesAndReadsText) {
  c_file* file = quarry_c_fopen(path_.c_str(), "w");
  EXPECT_EQ(quarry_c_fprintf(file, "%s %d %.3f\n", "name", 7, 2.5), 13);
  quarry_c_fputs("second line\nlast", file);
  quarry_c_fclose(file);
  file = quarry_c_fopen(path_.c_str(), "a");
  quarry_c_fputs(" end", file);
  quarry_c_fclose(file);

  file = quarry_c_fopen(path_.c_str(), "r");
  char word[20];
  int number = 0;
  double real = 0;
  EXPECT_EQ(quarry_c_fscanf(file, "%s %d %lf", word, &number, &real), 3);
  EXPECT_STREQ(word, "name");
  EXPECT_EQ(number, 7);
  EXPECT_EQ(real, 2.5);
  EXPECT_EQ(quarry_c_ftell(file), 12);
  EXPECT_EQ(quarry_c_fgetc(file), '\n');
  EXPECT_EQ(quarry_c_ungetc('X', file), 'X');
  char line[20];
  EXPECT_STREQ(quarry_c_fgets(line, 5, file), "Xsec");
  char* whole = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(quarry_c_getline(&whole, &size, file), 9);
  EXPECT_STREQ(whole, "ond line\n");
  EXPECT_EQ(quarry_c_getline(&whole, &size, file), 8);
  EXPECT_STREQ(whole, "last end");
  EXPECT_NE(quarry_c_feof(file), 0);
  EXPECT_EQ(quarry_c_fgets(line, 5, file), nullptr);
  quarry_c_fclose(file);
}

TEST_F(CFiles, RefusesAFileThatDoesNotExist) {
  EXPECT_EQ(quarry_c_fopen("/nonexistent/file", "r"), nullptr);
  EXPECT_EQ(*quarry_c___errno_location(), 2);
  EXPECT_EQ(quarry_c_remove("/nonexistent/file"), -1);
  EXPECT_EQ(quarry_c_fopen(path_.c_str(), "z"), nullptr);
  EXPECT_EQ(quarry_c_fopen(std::string(5000, 'x').c_str(), "w"), nullptr);
  EXPECT_EQ(*quarry_c___errno_location(), 36);
  c_file* const file = quarry_c_fopen(path_.c_str(), "r");
  EXPECT_EQ(quarry_c_fwrite("x", 1, 1, file), 0u);
  EXPECT_NE(quarry_c_ferror(file), 0);
  quarry_c_fclose(file);
}

TEST_F(CFiles, WritesWhatIsBufferedWhenTheRankEnds) {
  c_file* const file = quarry_c_fopen(path_.c_str(), "w");
  quarry_c_fputs("text", file);
  leave_library(world_.rank());
  std::FILE* const written = std::fopen(path_.c_str(), "r");
  char text[10] = "";
  EXPECT_EQ(std::fread(text, 1, 10, written), 4u);
  std::fclose(written);
}

TEST_F(CFiles, WritesToTheOutputOfTheRank) {
  quarry_c_fprintf(*quarry_c_address_of_stdout(), "out %d", 1);
  quarry_c_fflush(*quarry_c_address_of_stdout());
  quarry_c_fprintf(*quarry_c_address_of_stderr(), "error %d\n", 2);
  EXPECT_EQ(world_.output[1], "out 1");
  EXPECT_EQ(world_.output[3], "f");
  EXPECT_EQ(world_.output[2], "error 2\n");
}

}  // namespace
}  // namespace quarry::mpi_test
