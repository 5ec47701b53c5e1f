// SPDX-License-Identifier: Apache-2.0
// Programs on every OpenCL device of the machine: errors, the cache, the self-test.
#include "quarry/opencl/program.hpp"

#include "opencl/devices.hpp"

#include <filesystem>

namespace quarry::test {
namespace opencl_program_test {

constexpr char const* kernels = "__kernel void use(quarry_heap heap) { quarry_malloc(heap, 100); }";

TEST(OpenclProgram, ReportsTheBuildLogOfAProgramThatDoesNotBuild) {
  on_each_device([](cl::Device const& device) -> std::string {
    cl::Context const context{device};
    try {
      (void)opencl::build(context, device, "__kernel void f() { undeclared_name = 1; }");
    } catch (opencl::opencl_error const& error) {
      return std::string{error.what()}.find("undeclared_name") != std::string::npos ? ""
                                                                                    : error.what();
    }
    return "it was built";
  });
}

TEST(OpenclProgram, DevicesOrderMessagesBetweenWorkGroups) {
  on_each_device([](cl::Device const& device) -> std::string {
    cl::Context const context{device};
    cl::CommandQueue const queue{context, device};
    setenv("QUARRY_OPENCL_CACHE", "", 1);
    auto const stale = opencl::count_stale_messages(context, device, queue);
    return stale == 0 ? "" : std::to_string(stale) + " stale messages";
  });
}

TEST(OpenclProgram, ABinaryOfTheCacheReplacesABuildAndADamagedOneDoesNot) {
  on_each_device([](cl::Device const& device) -> std::string {
    namespace fs = std::filesystem;
    auto const folder = fs::temp_directory_path() / ("quarry-cache-" + std::to_string(getpid()));
    setenv("QUARRY_OPENCL_CACHE", folder.c_str(), 1);
    cl::Context const context{device};
    auto const comes_from_cache = [&](char const* options) {
      auto const program = opencl::build(context, device, kernels, options);
      return program.getInfo<CL_PROGRAM_SOURCE>().empty();  // made from a binary
    };
    std::string problem;
    if (comes_from_cache("")) problem = "the first build came from an empty cache";
    if (fs::is_empty(folder)) problem = "no entry was written";
    if (!comes_from_cache("")) problem = "the second build did not use the cache";
    if (comes_from_cache("-DOTHER")) problem = "other options took the same binary";
    for (auto const& file : fs::directory_iterator{folder})
      fs::resize_file(file, fs::file_size(file) - 1);
    if (comes_from_cache("")) problem = "a damaged entry was used";
    fs::remove_all(folder);
    return problem;
  });
}

}  // namespace opencl_program_test
}  // namespace quarry::test
