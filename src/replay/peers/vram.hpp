// Vram: vram's own pool (src/pool), driven by a recorded program: no model, the code that runs on a
// GPU. Only the order of work is stated otherwise: a recording says when a block was freed, so what
// was queued then is taken as done when that lies further back than the lag. Single-threaded.
#pragma once

#include "pool/device.hpp"
#include "pool/pool.hpp"
#include "replay/allocator.hpp"
#include "replay/registry.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vram::replay {

[[nodiscard]] std::span<const PeerKey> vram_keys();
[[nodiscard]] Result<pool::Options> parse_vram_settings(Settings settings);

// The simulated GPU with the recording's clock.
class RecordedDevice final : public pool::Device {
 public:
  RecordedDevice(gpu::Memory& gpu, int64_t lag_ns) : Device(gpu, 0), lag_ns_(lag_ns) {}
  void set_now(int64_t time_ns) { now_ns_ = time_ns; }

  // Time 0 is stamp 1.
  [[nodiscard]] pool::Stamp stamp(gpu::StreamHandle) override {
    return static_cast<pool::Stamp>(now_ns_) + 1;
  }
  void mark(gpu::StreamHandle) override {}
  [[nodiscard]] bool is_done(gpu::StreamHandle, pool::Stamp stamp) override {
    if (stamp <= done_) return true;
    return now_ns_ - static_cast<int64_t>(stamp - 1) >= lag_ns_;
  }
  [[nodiscard]] gpu::Status wait(gpu::StreamHandle, pool::Stamp) override { return synchronize(); }
  // One wait a moment: the device has nothing to do after the first.
  [[nodiscard]] gpu::Status synchronize() override {
    if (done_ == stamp(0)) return gpu::Status::kOk;
    done_ = stamp(0);
    return Device::synchronize();
  }

 private:
  int64_t lag_ns_;
  int64_t now_ns_ = 0;
  pool::Stamp done_ = 0;
};

class Vram final : public Allocator {
 public:
  Vram(const pool::Options& options, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void free(uint32_t block, int64_t time_ns) override;
  void free_later(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;
  void empty_cache() override;

  [[nodiscard]] const Usage& usage() const override { return usage_; }
  [[nodiscard]] const Counters& counters() const override { return counters_; }
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  void take_figures();

  const Program& program_;
  RecordedDevice device_;
  pool::Pool pool_;
  std::vector<pool::BlockId> blocks_;  // by the program's number
  Usage usage_;
  Counters counters_;
};

[[nodiscard]] std::unique_ptr<Allocator> make_vram(Settings settings, const PeerContext& context);

}  // namespace vram::replay
