// SPDX-License-Identifier: Apache-2.0
// Programs on every OpenCL device of the machine: errors, the cache, the self-test.
#include "quarry/opencl/program.hpp"

#include "opencl/devices.hpp"

#include <filesystem>
#include <string>
#include <vector>

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

bool is_pocl(cl::Device const& device) {
  cl::Platform const platform{device.getInfo<CL_DEVICE_PLATFORM>()};
  return platform.getInfo<CL_PLATFORM_NAME>() == "Portable Computing Language";
}

TEST(OpenclProgram, ABinaryOfTheCacheReplacesABuildAndADamagedOneDoesNot) {
  auto const body = [](cl::Device const& device) -> std::string {
    namespace fs = std::filesystem;
    auto const folder = fs::temp_directory_path() / ("quarry-cache-" + std::to_string(getpid()));
    setenv("QUARRY_OPENCL_CACHE", folder.c_str(), 1);
    cl::Context const context{device};
    auto const comes_from_cache = [&](char const* options) {
      auto const program = opencl::build(context, device, kernels, options);
      return program.getInfo<CL_PROGRAM_SOURCE>().empty();  // made from a binary
    };
    if (is_pocl(device)) {  // has a cache of its own
      (void)comes_from_cache("");
      return fs::exists(folder) ? "a binary was stored" : "";
    }
    std::string problem;
    if (comes_from_cache("")) problem = "the first build came from an empty cache";
    if (fs::is_empty(folder)) problem = "no entry was written";
    if (!comes_from_cache("")) problem = "the second build did not use the cache";
    if (comes_from_cache("-DOTHER")) problem = "other options took the same binary";
    for (auto const& file : fs::directory_iterator{folder})
      fs::resize_file(file, fs::file_size(file) - 1);
    if (comes_from_cache("")) problem = "a damaged entry was used";
    for (auto const& file : fs::directory_iterator{folder}) {
      auto const path = file.path();
      fs::remove(path);
      fs::create_directory(path);
    }
    if (comes_from_cache("")) problem = "a folder in place of an entry was used";
    fs::remove_all(folder);
    return problem;
  };
  on_each_device(body);
}

// PoCL compiles all kernels for any size of group when it is asked for a binary, which took half of
// the time of a first start.
TEST(OpenclProgram, OnPoclABuildCompilesNoKernel) {
  namespace fs = std::filesystem;
  auto const folder = fs::temp_directory_path() / ("quarry-pocl-" + std::to_string(getpid()));
  setenv("POCL_CACHE_DIR", folder.c_str(), 1);  // PoCL reads it in the child, before it has devices
  auto const body = [&](cl::Device const& device) -> std::string {
    auto const kernels_of_pocl = [&] {
      std::vector<std::string> names;
      for (auto const& file : fs::recursive_directory_iterator{folder})
        if (file.path().extension() == ".so") names.push_back(file.path().stem());
      return names;
    };
    cl::Context const context{device};
    cl::CommandQueue const queue{context, device};
    auto const program = opencl::build(context, device, kernels);
    if (auto const built = kernels_of_pocl(); !built.empty()) return "compiled: " + built.front();
    opencl::heap const heap{context, device, queue, {.bytes = 1_MiB}};
    cl::Kernel use{program, "use"};
    use.setArg(0, heap.buffer());
    queue.enqueueNDRangeKernel(use, cl::NullRange, 64, 64);
    queue.finish();
    auto const built = kernels_of_pocl();  // the heap's kernel, and this one
    return built.size() == 2 ? "" : std::to_string(built.size()) + " kernels were compiled, not 2";
  };
  on_each_device(body, is_pocl, "no device of PoCL");
  unsetenv("POCL_CACHE_DIR");
  fs::remove_all(folder);
}

TEST(OpenclProgram, RefusesALanguageThatIsTooOldAndSaysWhichOneItNeeds) {
  on_each_device([](cl::Device const& device) -> std::string {
    cl::Context const context{device};
    bool const is_c11 = opencl::tier_of(device) == opencl::atomics_tier::c11;
    for (std::string const language : {"CL1.1", "CL1.2", "CLC++", "CL", ""}) {
      std::string const option = "-cl-std=" + language;
      bool const is_refused = is_c11 || language != "CL1.2";
      try {
        (void)opencl::build(context, device, kernels, "-DONE " + option + " -DTWO");
        if (is_refused) return option + " was built";
      } catch (bad_argument const& error) {
        if (!is_refused) return error.what();
        std::string const text = error.what();
        for (auto const* const part :
             {option.c_str(), is_c11 ? "CL2.0 or later" : "CL1.2 or later"})
          if (text.find(part) == std::string::npos) return text;
      }
    }
    auto const usual = opencl::build_options(device);
    (void)opencl::build(context, device, kernels, usual.substr(0, usual.find(' ')));
    return "";
  });
}

TEST(OpenclProgram, TheSourcesSayWhichLanguageTheyNeedIfTheCallerBuildsThem) {
  on_each_device([](cl::Device const& device) -> std::string {
    cl::Program const program{cl::Context{device},
                              cl::Program::Sources{opencl::sources(), kernels}};
    try {
      program.build(device, "-cl-std=CL1.2 -DQUARRY_TIER=1");
      return "it was built";
    } catch (cl::Error const&) {
      auto const log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
      if (log.find("build with -cl-std=CL3.0") == std::string::npos) return log;
      return log.find("memory_order") == std::string::npos ? "" : "other errors follow: " + log;
    }
  });
}

TEST(OpenclProgram, SaysWhichOptionsTheDeviceRefuses) {
  on_each_device([](cl::Device const& device) -> std::string {
    try {
      (void)opencl::build(cl::Context{device}, device, kernels, "-no-such-option");
      return "";  // this device ignores it
    } catch (opencl::opencl_error const& error) {
      std::string const text = error.what();
      return text.find("-no-such-option") != std::string::npos ? "" : text;
    }
  });
}

}  // namespace opencl_program_test
}  // namespace quarry::test
