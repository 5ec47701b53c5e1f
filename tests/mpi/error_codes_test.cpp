// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quarry::test {
namespace error_codes_test {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = -1;
  EXPECT_EQ(MPI_Error_string(code, text, &length), MPI_SUCCESS);
  EXPECT_EQ(static_cast<std::size_t>(length), std::string{text}.size());
  return text;
}
int class_of(int code) {
  int result = -1;
  EXPECT_EQ(MPI_Error_class(code, &result), MPI_SUCCESS);
  return result;
}

TEST(ErrorCodes, EachClassOfTheStandardHasATextOfItsOwn) {
  run_everywhere(1, [] {
    std::vector<std::string> texts;
    for (int code = MPI_SUCCESS; code <= MPI_ERR_VALUE_TOO_LARGE; ++code) {
      EXPECT_EQ(class_of(code), code);
      std::string const text = text_of(code);
      for (std::string const& other : texts) EXPECT_NE(text, other) << code;
      EXPECT_EQ(text == "unknown error", code == MPI_ERR_UNKNOWN) << code;
      texts.push_back(text);
    }
    EXPECT_EQ(class_of(12345), MPI_ERR_UNKNOWN);
    EXPECT_EQ(text_of(-1), "unknown error");
  });
}

TEST(ErrorCodes, TheProgramAddsClassesCodesAndTexts) {
  run_everywhere(2, [] {
    int last[2]{}, *attribute = last, flag = 0;
    auto const last_used = [&] {
      MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, static_cast<void*>(&attribute), &flag);
      return *attribute;
    };
    EXPECT_EQ(last_used(), MPI_ERR_LASTCODE);
    int error_class = 0;
    std::vector<int> codes(20);
    MPI_Add_error_class(&error_class);
    EXPECT_GT(error_class, MPI_ERR_LASTCODE);
    for (int& code : codes) MPI_Add_error_code(error_class, &code);
    int of_standard = 0;
    MPI_Add_error_code(MPI_ERR_ARG, &of_standard);
    EXPECT_EQ(last_used(), of_standard);
    EXPECT_EQ(text_of(codes[3]), "");
    for (int const code : codes)
      MPI_Add_error_string(code, ("code " + std::to_string(code)).c_str());
    MPI_Add_error_string(codes[0], "another text");
    for (int const code : codes) {
      EXPECT_EQ(class_of(code), error_class);
      EXPECT_EQ(text_of(code), code == codes[0] ? "another text" : "code " + std::to_string(code));
    }
    EXPECT_EQ(class_of(error_class), error_class);
    EXPECT_EQ(class_of(of_standard), MPI_ERR_ARG);
  });
}

TEST(ErrorCodes, RefusesWhatIsNotTheProgramsOwn) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error_class = 0, code = 0, unused = -5;
    MPI_Add_error_class(&error_class);
    MPI_Add_error_code(error_class, &code);
    EXPECT_EQ(MPI_Add_error_code(code, &unused), MPI_ERR_ARG);  // a code is no class
    EXPECT_EQ(MPI_Add_error_code(MPI_ERR_LASTCODE + 50, &unused), MPI_ERR_ARG);
    EXPECT_EQ(unused, -5);
    EXPECT_EQ(MPI_Add_error_string(MPI_ERR_ARG, "mine"), MPI_ERR_ARG);
    std::string const most(MPI_MAX_ERROR_STRING - 1, 'x');
    EXPECT_EQ(MPI_Add_error_string(code, (most + "x").c_str()), MPI_ERR_ARG);
    EXPECT_EQ(text_of(code), "");
    EXPECT_EQ(MPI_Add_error_string(code, most.c_str()), MPI_SUCCESS);
    EXPECT_EQ(text_of(code), most);
  });
}

int calls = 0, last_code = 0;
void count_call(MPI_Comm*, int* code, ...) {
  ++calls;
  last_code = *code;
}

TEST(ErrorCodes, TheProgramCallsAHandlerWithItsOwnCode) {
  auto const result = run_on_fibers(1, 1, [] {
    int code = 0;
    MPI_Add_error_code(MPI_ERR_OTHER, &code);
    MPI_Errhandler handler{};
    MPI_Errhandler_create(&count_call, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    EXPECT_EQ(MPI_Comm_call_errhandler(MPI_COMM_WORLD, code), MPI_SUCCESS);
    EXPECT_TRUE(calls == 1 && last_code == code);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT_EQ(MPI_Comm_call_errhandler(MPI_COMM_WORLD, code), MPI_SUCCESS);
    EXPECT_EQ(MPI_Comm_call_errhandler(MPI_COMM_NULL, code), MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
    MPI_Errhandler_get(MPI_COMM_SELF, &handler);
    EXPECT_EQ(handler, MPI_ERRORS_ABORT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
    MPI_Add_error_string(code, "my own failure");
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
    ADD_FAILURE() << "the program has ended";
  });
  EXPECT_EQ(result.failure.substr(0, 48), "rank 0: MPI_Comm_call_errhandler: my own failure");
}

}  // namespace error_codes_test
}  // namespace quarry::test
