// The time of one `vram status` on this machine: each step of the first sample, in the order of the
// program, then whole programs from start to exit. Only the programs are repeated, because reading
// a figure again is cheaper.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_first_sample vram &&
//   build/release/bench/bench_first_sample build/release/src/vram

#include "gpu/drm/drm.hpp"
#include "gpu/nvml/health.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/nvml/nvml_when_awake.hpp"
#include "gpu/nvml/process_list.hpp"
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

using namespace vram;             // NOLINT(google-build-using-namespace)
using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): its functions, one by one

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
void query_affinity(nvmlDevice device) {
  using Ask = int(nvmlDevice, unsigned, unsigned long*, unsigned);
  void* const library = dlopen(Nvml::library().c_str(), RTLD_NOW);
  auto* const query = reinterpret_cast<Ask*>(dlsym(library, "nvmlDeviceGetMemoryAffinity"));
  std::array<unsigned long, 16> nodes{};
  if (query != nullptr) (void)query(device, nodes.size(), nodes.data(), 0);
}

// The first call of each function, which may be the dear one.
void time_first_calls(const NvmlApi& api, nvmlDevice device) {
  time("  name", [&] { (void)query_text(api.device_get_name, device); });
  time("  UUID", [&] { (void)query_text(api.device_get_uuid, device); });
  time("  PCI address",
       [&] { (void)query_first<PciInfo>(api, {"nvmlDeviceGetPciInfo_v3"}, device); });
  time("  driver's version", [&] { (void)query_text(api.system_get_driver); });
  time("  power limit",
       [&] { (void)query_first<unsigned>(api, {"nvmlDeviceGetEnforcedPowerLimit"}, device); });
  gpu::DeviceMemory memory;
  time("  memory", [&] { (void)query_memory(api, device, memory); });
  time("  utilization", [&] { (void)query<Utilization>(api.device_get_utilization, device); });
  for (const ProcessKind kind : {ProcessKind::kCompute, ProcessKind::kGraphics, ProcessKind::kMps})
    time("  list of processes", [&] { (void)list_processes(api, kind, device); });
  time("  utilization of processes", [&] { (void)query_percent_by_pid(api, device); });
  for (const Field number : {kFieldPcieSentBytes, kFieldNvlinkSentKib, kFieldPowerNow,
                             kFieldMemoryCelsius, kFieldRecoveryAction}) {
    std::array fields{field(number)};
    time(fmt::format("  field {}", static_cast<int>(number)),
         [&] { query_fields(api, device, fields); });
  }
  for (const uint32_t clock : {kClockGraphics, kClockMemory})
    time("  clock", [&] { (void)query<unsigned>(api.device_get_clock, device, clock); });
  time("  throttle reasons",
       [&] { (void)query<uint64_t>(api.device_get_throttle_reasons, device); });
  time("  power", [&] { (void)query<unsigned>(api.device_get_power, device); });
  time("  MIG mode", [&] { (void)query_is_mig(api, device); });
  time("  BAR1",
       [&] { (void)query_first<MemoryV1>(api, {"nvmlDeviceGetBAR1MemoryInfo"}, device); });
  time("  ECC",
       [&] { (void)query_first<uint64_t>(api, {"nvmlDeviceGetTotalEccErrors"}, device, 0U, 0U); });
  time("  compute mode",
       [&] { (void)query_first<unsigned>(api, {"nvmlDeviceGetComputeMode"}, device); });
  time("  persistence",
       [&] { (void)query_first<unsigned>(api, {"nvmlDeviceGetPersistenceMode"}, device); });
}

void time_device(const NvmlApi& api) {
  nvmlDevice device = nullptr;
  time("  handle of GPU 0", [&] { (void)api.device_get_handle(0, &device); });
  if (device == nullptr) return;
  time_first_calls(api, device);
  CachedReadings cached;
  cached.device = device;
  for (const char* const what : {"all figures", "which opens GPM", "with GPM", "clocks", "power",
                                 "MPS and MIG", "with GPM"}) {
    gpu::DeviceSample sample;
    time(fmt::format("  sample, {}", what), [&] { (void)take_sample(api, cached, sample); });
  }
  time("  identity", [&] { (void)query_identity(api, device); });
  time("  health", [&] { (void)query_health(api, device); });
  time("  memory affinity (not asked for by the program)", [&] { query_affinity(device); });
}

void time_nvml() {
  fmt::print("NVML, call by call\n");
  Result<NvmlApi> api = fail(Code::kNotFound, "not asked");
  time("  dlopen", [&] { api = NvmlApi::load(Nvml::library()); });
  if (!api) return fmt::print("  {}\n", api.error().message);
  NvmlReturn answer = kUnknown;
  time("  nvmlInit", [&] { answer = api->init(); });
  if (answer != kSuccess) return fmt::print("  {}\n", api->name_of(answer));
  time_device(*api);
  time("  nvmlShutdown", [&] { (void)api->shutdown(); });
}

void time_sources() {
  fmt::print("Sources, as the program has them (the library is loaded by now)\n");
  const auto open_nvml = [] { return NvmlWhenAwake::open(Nvml::library()); };
  const auto open_drm = []() -> Result<gpu::drm::Drm> { return gpu::drm::Drm::open(); };
  for (const watch::Opener& opener :
       {watch::opener_of("nvml", open_nvml), watch::opener_of("drm", open_drm)}) {
    watch::Sources sources({opener});
    watch::Readings readings;
    time(fmt::format("  {}: open and first sample", opener.name),
         [&] { readings = sources.read(); });
    time(fmt::format("  {}: second sample", opener.name), [&] { (void)sources.read(); });
    watch::ProcessTable table;
    watch::Boards boards;
    time(fmt::format("  {}: processes and board", opener.name),
         [&] { (void)take_snapshot(watch::current_moment(), std::move(readings), table, boards); });
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
