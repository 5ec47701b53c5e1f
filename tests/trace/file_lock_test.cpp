// SPDX-License-Identifier: Apache-2.0
// A trace file has one writer at a time.
#include "quarry/trace/file_writer.hpp"

#include "trace/codec.hpp"
#include "trace/trace_files.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>

namespace quarry::test {
namespace {

using trace::event;
using trace::file_writer;

std::string another_writer_message(std::string const& path) {
  return path +
         ": cannot create the file: another recorder writes it; close that one, or use another "
         "name";
}

TEST(FileLock, RefusesAFileThatAnotherWriterHasAndLeavesItAsItIs) {
  temporary_file const file;
  std::vector<event> const events(100, event{.time = 7});
  file_writer first{file.path()};
  first.add(events, {});
  first.flush();
  auto const refused = [&] { return message_of([&] { file_writer{file.path()}; }); };
  EXPECT_EQ(refused(), another_writer_message(file.path()));
  run_and_crash([&] {
    if (refused() != another_writer_message(file.path())) _exit(1);
  });
  first.add(events, {});
  first.close();
  auto const found = read_all(file.path());
  EXPECT_EQ(found.events.size(), 200u);
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(refused(), "") << "the first writer is closed";
  EXPECT_TRUE(read_all(file.path()).events.empty());
}

TEST(FileLock, ReleasesTheFileWhenCloseFails) {
  temporary_file const file;
  run_and_crash([&] {
    (void)std::signal(SIGXFSZ, SIG_IGN);
    file_writer writer{file.path()};
    std::vector<event> const events(100);
    rlimit const limit{50, 50};
    setrlimit(RLIMIT_FSIZE, &limit);
    writer.add(events, {});
    if (message_of([&] { writer.close(); }) !=
        file.path() + ": cannot write the file: File too large")
      _exit(1);
    if (writer.lost() != 100) _exit(2);
    file_writer const next{file.path()};
  });
}

/// A child has its parent's files open. It can neither end the parent's locks nor keep them.
TEST(FileLock, AForkDoesNotMoveTheLock) {
  temporary_file const first, second;
  file_writer writer{first.path()}, abandoned{second.path()};
  int until_abandoned[2] = {}, until_closed[2] = {};
  ASSERT_EQ(pipe(until_abandoned), 0);
  ASSERT_EQ(pipe(until_closed), 0);
  pid_t const child = fork();
  char word = 0;
  if (child == 0) {
    alarm(60);
    abandoned.abandon();
    if (write(until_abandoned[1], &word, 1) != 1) _exit(1);
    _exit(read(until_closed[0], &word, 1) == 1 ? 0 : 1);  // `writer` is open until then
  }
  ASSERT_EQ(read(until_abandoned[0], &word, 1), 1);
  EXPECT_EQ(message_of([&] { file_writer{second.path()}; }), another_writer_message(second.path()));
  writer.close();
  EXPECT_EQ(message_of([&] { file_writer{first.path()}; }), "");
  ASSERT_EQ(write(until_closed[1], &word, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int const end : {until_abandoned[0], until_abandoned[1], until_closed[0], until_closed[1]})
    (void)::close(end);
}

TEST(FileLock, DevicesAndPipesMayHaveSeveralWriters) {
  file_writer first{"/dev/null"}, second{"/dev/null"};
  first.close();
  second.close();
  temporary_file const pipe_file;
  ASSERT_EQ(mkfifo(pipe_file.path().c_str(), 0600), 0);
  int const reader = open(pipe_file.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  file_writer third{pipe_file.path()}, fourth{pipe_file.path()};
  third.close();
  fourth.close();
  char bytes[100];
  EXPECT_EQ(read(reader, bytes, sizeof bytes),
            2 * static_cast<int>(trace::codec::file_header_bytes));
  (void)::close(reader);
}

/// Makes all later calls of flock fail as on a file system without locks. The process keeps it.
void refuse_locks(int error) {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog const program{static_cast<unsigned short>(std::size(steps)), steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(0);  // this system has no such filters
}

TEST(FileLock, AFileSystemWithoutLocksIsWritten) {
  for (int const error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    temporary_file const file{"an older file"};
    run_and_crash([&] {
      refuse_locks(error);
      file_writer writer{file.path()};
      std::vector<event> const events(100);
      writer.add(events, {});
      writer.close();
      if (read_all(file.path()).events.size() != 100) _exit(1);
    });
  }
}

TEST(FileLock, AProgramThatIsExecutedDoesNotGetTheFile) {
  temporary_file const file;
  file_writer const writer{file.path()};
  std::FILE* const list = popen("ls -l /proc/self/fd", "r");
  ASSERT_NE(list, nullptr);
  std::string text(10'000, ' ');
  text.resize(std::fread(text.data(), 1, text.size(), list));
  EXPECT_EQ(pclose(list), 0);
  EXPECT_NE(text.find("->"), std::string::npos);
  EXPECT_EQ(text.find(file.path()), std::string::npos) << text;
}

}  // namespace
}  // namespace quarry::test
