// Where the time of one `vram status` goes, on this machine: each step of the first look on its
// own, in the order in which the program takes them, then whole programs from start to exit.
// Nothing is repeated but the programs: what is asked for the second time is cheaper.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_first_look vram &&
//   build/release/bench/bench_first_look build/release/src/vram

#include "gpu/drm/drm.hpp"
#include "gpu/nvml/identity.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/nvml/nvml_when_awake.hpp"
#include "watch/sources.hpp"
#include "watch/take_snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

using namespace vram;  // NOLINT(google-build-using-namespace)

template <typename Step>
double milliseconds(Step step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

template <typename Step>
void time(const std::string& name, Step step) {
  fmt::print("{:48} {:9.3f} ms\n", name, milliseconds(step));
}

// As the library itself finds the NUMA node, which the program leaves to the kernel.
void ask_for_affinity(gpu::nvml::nvmlDevice device) {
  using Ask = int(gpu::nvml::nvmlDevice, unsigned, unsigned long*, unsigned);
  void* const library = dlopen(gpu::nvml::Nvml::library().c_str(), RTLD_NOW);
  auto* const ask = reinterpret_cast<Ask*>(dlsym(library, "nvmlDeviceGetMemoryAffinity"));
  std::array<unsigned long, 16> nodes{};
  if (ask != nullptr) (void)ask(device, nodes.size(), nodes.data(), 0);
}

void time_device(const gpu::nvml::NvmlApi& api) {
  gpu::nvml::nvmlDevice device = nullptr;
  time("  handle of GPU 0", [&] { (void)api.device_get_handle(0, &device); });
  if (device == nullptr) return;
  time("  identity", [&] { (void)gpu::nvml::ask_identity(api, device); });
  gpu::nvml::Kept kept;
  kept.device = device;
  for (const char* const what : {"the first: all figures", "the second: opens GPM", "with GPM",
                                 "third turn", "fourth turn", "first turn", "with GPM"}) {
    gpu::DeviceSample sample;
    time(fmt::format("  sample, {}", what),
         [&] { (void)gpu::nvml::take_sample(api, kept, sample); });
  }
  time("  health", [&] { (void)gpu::nvml::ask_health(api, device); });
  time("  memory affinity (not asked for by the program)", [&] { ask_for_affinity(device); });
}

void time_nvml() {
  fmt::print("NVML, call by call\n");
  Result<gpu::nvml::NvmlApi> api = fail(Code::kNotFound, "not asked");
  time("  dlopen", [&] { api = gpu::nvml::NvmlApi::load(gpu::nvml::Nvml::library()); });
  if (!api) return fmt::print("  {}\n", api.error().message);
  gpu::nvml::NvmlReturn answer = gpu::nvml::kUnknown;
  time("  nvmlInit", [&] { answer = api->init(); });
  if (answer != gpu::nvml::kSuccess) return fmt::print("  {}\n", api->name_of(answer));
  time_device(*api);
  time("  nvmlShutdown", [&] { (void)api->shutdown(); });
}

void time_sources() {
  fmt::print("Sources, as the program has them (the library is loaded by now)\n");
  const auto open_nvml = [] { return gpu::nvml::NvmlWhenAwake::open(gpu::nvml::Nvml::library()); };
  const auto open_drm = []() -> Result<gpu::drm::Drm> { return gpu::drm::Drm::open(); };
  for (const watch::Opener& opener :
       {watch::opener_of("nvml", open_nvml), watch::opener_of("drm", open_drm)}) {
    watch::Sources sources({opener});
    watch::Readings readings;
    time(fmt::format("  {}: open and first look", opener.name), [&] { readings = sources.read(); });
    time(fmt::format("  {}: second look", opener.name), [&] { (void)sources.read(); });
    watch::ProcessTable table;
    time(fmt::format("  {}: processes and board", opener.name), [&] {
      (void)take_snapshot(watch::here_and_now(), std::move(readings), table, watch::Boards());
    });
    time(fmt::format("  {}: let go", opener.name), [&] { sources.release(); });
  }
}

void time_program(const std::string& command) {
  std::vector<double> times;
  const std::string quiet = command + " >/dev/null 2>&1";
  for (int run = 0; run < 9; ++run)
    times.push_back(milliseconds([&] { (void)!std::system(quiet.c_str()); }));
  std::ranges::sort(times);
  fmt::print("  {:46} {:9.3f} ms (at least {:.3f})\n", command, times[times.size() / 2], times[0]);
}

}  // namespace

int main(int count, char** words) {
  time_nvml();
  time_sources();
  if (count < 2) return 0;
  fmt::print("Programs from start to exit, with a shell before them: the median of nine\n");
  const std::string program = words[1];
  for (const std::string& command :
       {std::string("true"), program + " --version", program + " status --gpu drm",
        program + " status --gpu nvml", program + " status", std::string("nvidia-smi")})
    time_program(command);
  return 0;
}
