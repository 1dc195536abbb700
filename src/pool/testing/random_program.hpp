// RandomProgram: what a correct program may do with a pool, as operations with numbers that mean
// something only in the state that the program is in, so that any part of a program is one, too
// (pool_order_test.cpp shrinks it). It runs on the checked GPU: every block is written when it is
// had and read before it is freed, in streams whose work runs late, and which are captured into
// graphs for a while.
#pragma once

#include "base/bytes.hpp"
#include "gpu/sim/checked_gpu.hpp"
#include "pool/device.hpp"
#include "pool/pool.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pool {

enum class OpKind : uint8_t {
  kAllocate,
  kFree,
  kRead,
  kUse,
  kStep,
  kLend,
  kReturn,
  kHold,
  kFinish,
  kTrim,
  kLimit,
  kForget,
  kWait,
  kCapture,
  kRenew,
  kFail,
  kSpin,
  kWrap,
};

struct Op {
  OpKind kind = OpKind::kStep;
  uint32_t a = 0;
  uint32_t b = 0;
};
[[nodiscard]] std::string to_string(const Op& op);

// The pool's device and options, by the number of the program.
struct World {
  Options options;
  uint64_t capacity_bytes = 0;
  bool has_faults = false;
  bool has_room = false;  // so much that the pool need not wait, whatever happens
  bool announces_captures = false;
};
[[nodiscard]] World world_of(uint64_t seed);
[[nodiscard]] std::vector<Op> random_ops(uint64_t seed, size_t count);

// Lets the host wait or not: what is known to be done must be found without.
class MaybeWaitingDevice final : public Device {
 public:
  using Device::Device;
  void allow_waiting(bool may_wait) { may_wait_ = may_wait; }
  [[nodiscard]] Status wait(StreamHandle stream, Stamp stamp) override {
    return may_wait_ ? Device::wait(stream, stamp) : Status::kNotReady;
  }

 private:
  bool may_wait_ = true;
};

class RandomProgram {
 public:
  explicit RandomProgram(const World& world);
  // Empty, or what went wrong first; done: how many operations were.
  [[nodiscard]] std::string run(const std::vector<Op>& ops, size_t* done);
  [[nodiscard]] const Stats& stats() const { return pool_.stats(); }

 private:
  struct Live {
    BlockId id;
    Address address = 0;
    uint64_t bytes = 0;
    StreamHandle stream = 0;
    uint64_t tag = 0;
    uint64_t life = 0;  // of its stream, which may have ended
  };
  struct Lent {
    Lease lease;
    StreamHandle stream = 0;
    uint64_t life = 0;
    uint64_t tag = 0;
  };
  void apply(Op op);
  void allocate(Op op);
  void write_new(uint64_t bytes, StreamHandle stream);
  void free(Op op);
  void use(Op op);
  void lend(Op op);
  void give_back(Op op);
  void forget(Op op);
  void capture(Op op);
  void end_capture(StreamHandle stream);
  void end_captures();
  void hold(Op op);
  void finish_all();
  void spin(Op op);
  void end_spin();
  void relay(Op op);
  [[nodiscard]] bool is_alive(const Live& block) const {
    return lives_[block.stream] == block.life;
  }
  void read(const Live& block, StreamHandle stream);
  [[nodiscard]] Live take(size_t index);
  [[nodiscard]] std::string check();

  World world_;
  gpu::CheckedGpu gpu_;
  MaybeWaitingDevice device_;
  Pool pool_;
  std::vector<Live> live_;
  std::vector<Lent> lent_;
  std::vector<BlockId> held_;
  std::vector<uint64_t> lives_;  // by stream: counts how often one of that handle began
  uint64_t last_tag_ = 0;
  uint64_t failed_ = 0;  // requests
  StreamHandle spinning_ = 0;
  bool is_spinning_ = false;
  bool has_forgotten_ = false;
};

}  // namespace vram::pool
