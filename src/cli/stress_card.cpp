#include "cli/stress_card.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "gpu/cuda/cuda_copies.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/sim/sim_gpu.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace vram::cli {
namespace {

using gpu::cuda::CopyApi;
using gpu::cuda::CudaCopies;
using gpu::cuda::CudaMemory;
using gpu::cuda::DriverApi;

// More threads than this don't make the bus faster.
constexpr unsigned kMaxLanes = 8;

class SimulatedCard final : public StressCard {
 public:
  explicit SimulatedCard(uint64_t bytes)
      : gpu_({.devices = {{bytes, gpu::kUnlimited}}, .backing = true}),
        card_(gpu_, gpu_, 0, 1,
              [](gpu::Call, gpu::Status status) { return std::string(gpu::to_string(status)); }) {
    device_.name = tr("simulated GPU");
    device_.uuid = fmt::format("simulated-{}", bytes);
    device_.is_simulated = true;
  }
  stress::Card& card() override { return card_; }
  const stress::StressedDevice& device() const override { return device_; }

 private:
  gpu::SimGpu gpu_;
  stress::Card card_;
  stress::StressedDevice device_;
};

struct Driver {
  DriverApi api;
  CopyApi copies;
};

class CudaCard final : public StressCard {
 public:
  static Result<std::unique_ptr<StressCard>> open(std::unique_ptr<Driver> driver, uint32_t ordinal,
                                                  stress::StressedDevice device) {
    VRAM_TRY_ASSIGN(auto memory, CudaMemory::open(driver->api, ordinal));
    VRAM_TRY_ASSIGN(auto copies, CudaCopies::open(driver->api, driver->copies, ordinal));
    return std::make_unique<CudaCard>(std::move(driver), std::move(memory), std::move(copies),
                                      ordinal, std::move(device));
  }
  CudaCard(std::unique_ptr<Driver> driver, std::unique_ptr<CudaMemory> memory,
           std::unique_ptr<CudaCopies> copies, uint32_t ordinal, stress::StressedDevice device)
      : driver_(std::move(driver)),
        memory_(std::move(memory)),
        copies_(std::move(copies)),
        card_(*memory_, *copies_, ordinal,
              std::clamp(std::thread::hardware_concurrency(), 1U, kMaxLanes),
              [this](gpu::Call call, gpu::Status status) { return answer(call, status); }),
        device_(std::move(device)) {}
  stress::Card& card() override { return card_; }
  const stress::StressedDevice& device() const override { return device_; }

 private:
  [[nodiscard]] std::string answer(gpu::Call call, gpu::Status status) const {
    const auto last = gpu::is_copies(call) ? copies_->last_failure() : memory_->last_failure();
    return last == gpu::cuda::kSuccess ? std::string(gpu::to_string(status))
                                       : driver_->api.name_of(last);
  }
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<CudaMemory> memory_;
  std::unique_ptr<CudaCopies> copies_;
  stress::Card card_;
  stress::StressedDevice device_;
};

Result<std::unique_ptr<Driver>> open_driver() {
  const std::string path = gpu::cuda::driver_path();
  VRAM_TRY_ASSIGN(auto api, DriverApi::load(path));
  VRAM_TRY_ASSIGN(auto copies, CopyApi::load(path));
  return std::make_unique<Driver>(Driver{api, copies});
}

bool is_same(const std::optional<std::string>& one, const std::optional<std::string>& other) {
  return one && other && !one->empty() && *one == *other;
}

std::vector<stress::StressedDevice> devices_of(const Driver& driver) {
  std::vector<stress::StressedDevice> devices;
  int count = 0;
  if (driver.api.device_get_count(&count) != gpu::cuda::kSuccess) return devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    gpu::cuda::CUdevice device = 0;
    stress::StressedDevice& added = devices.emplace_back();
    if (driver.api.device_get(&device, ordinal) != gpu::cuda::kSuccess) continue;
    const gpu::cuda::DeviceNames names = gpu::cuda::names_of(driver.copies, device);
    added.name = names.name;
    added.uuid = names.uuid;
    added.pci_id = names.pci_id;
  }
  return devices;
}

// Which of CUDA's devices is meant.
Result<uint32_t> ordinal_of(const std::vector<stress::StressedDevice>& devices,
                            const watch::Snapshot& snapshot, std::optional<uint32_t> number) {
  if (!number) return 0;
  if (snapshot.devices.empty()) return *number;
  for (uint32_t ordinal = 0; ordinal < devices.size(); ++ordinal) {
    const watch::Device* const found = find_device(snapshot, devices[ordinal]);
    if (found != nullptr && found->identity.index == *number) return ordinal;
  }
  return fail(Code::kNotFound,
              "GPU {} is not among the {} that CUDA shows this process: check its number in vram "
              "status, and CUDA_VISIBLE_DEVICES",
              *number, devices.size());
}

}  // namespace

std::unique_ptr<StressCard> simulated_card(uint64_t bytes) {
  return std::make_unique<SimulatedCard>(bytes);
}

const watch::Device* find_device(const watch::Snapshot& snapshot,
                                 const stress::StressedDevice& device) {
  const auto found = std::ranges::find_if(snapshot.devices, [&](const watch::Device& each) {
    return is_same(each.identity.uuid, device.uuid) || is_same(each.identity.pci_id, device.pci_id);
  });
  return found == snapshot.devices.end() ? nullptr : &*found;
}

Result<std::unique_ptr<StressCard>> cuda_card(const watch::Snapshot& snapshot,
                                              std::optional<uint32_t> number) {
  VRAM_TRY_ASSIGN(auto driver, open_driver());
  const std::vector<stress::StressedDevice> devices = devices_of(*driver);
  VRAM_TRY_ASSIGN(const auto ordinal, ordinal_of(devices, snapshot, number));
  stress::StressedDevice device;
  if (ordinal < devices.size()) device = devices[ordinal];
  if (const watch::Device* const known = find_device(snapshot, device); known != nullptr) {
    device.index = known->identity.index;
    device.driver = known->identity.driver;
  }
  return CudaCard::open(std::move(driver), ordinal, std::move(device));
}

}  // namespace vram::cli
