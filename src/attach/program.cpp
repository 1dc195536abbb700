#include "attach/program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace vram::attach {
namespace {

// The kernel's calling convention: arguments in r1 to r5, the result in r0, r6 to r9 are kept.
constexpr uint8_t kContext = BPF_REG_6;  // Registers
constexpr uint8_t kEvent = BPF_REG_7;
constexpr uint8_t kFrame = BPF_REG_8;  // a frame of the recorded program
constexpr uint8_t kFrameCount = BPF_REG_9;

class Assembler {
 public:
  void move(uint8_t to, uint8_t from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(uint8_t to, int64_t value) { add_wide(to, 0, value, 0); }
  void set_map(uint8_t to, int descriptor) { add_wide(to, BPF_PSEUDO_MAP_FD, descriptor, 0); }
  // The address of an array's first value.
  void set_map_value(uint8_t to, int descriptor) {
    add_wide(to, BPF_PSEUDO_MAP_VALUE, descriptor, 0);
  }
  void add_register(uint8_t to, uint8_t from) { add(BPF_ALU64 | BPF_ADD | BPF_X, to, from, 0, 0); }
  void compute(uint8_t operation, uint8_t to, int32_t value) {
    add(BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
  }
  void load(uint8_t to, uint8_t from, int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_DW, to, from, offset, 0);
  }
  void store(uint8_t to, int16_t offset, uint8_t from) {
    add(BPF_STX | BPF_MEM | BPF_DW, to, from, offset, 0);
  }
  void atomic_add(uint8_t to, uint8_t from) { add(BPF_STX | BPF_XADD | BPF_DW, to, from, 0, 0); }
  void call(bpf_func_id function) { add(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void exit() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  // Returns the jump, for land().
  [[nodiscard]] size_t jump_if(uint8_t condition, uint8_t left, int32_t right) {
    add(BPF_JMP | condition | BPF_K, left, 0, 0, right);
    return code_.size() - 1;
  }
  // The jump goes to the next instruction.
  void land(size_t jump) { code_[jump].off = static_cast<int16_t>(code_.size() - jump - 1); }
  [[nodiscard]] std::vector<bpf_insn> take() { return std::move(code_); }

 private:
  void add(int code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
    bpf_insn instruction{};
    instruction.code = static_cast<uint8_t>(code);
    instruction.dst_reg = to & 15;
    instruction.src_reg = from & 15;
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
  }
  void add_wide(uint8_t to, uint8_t source, int64_t low_and_high, int16_t offset) {
    // NOLINTNEXTLINE(misc-redundant-expression): two of them are 0, and mean different things
    add(BPF_LD | BPF_DW | BPF_IMM, to, source, offset, static_cast<int32_t>(low_and_high));
    const bool is_number = source == 0;
    add(0, 0, 0, 0, is_number ? static_cast<int32_t>(low_and_high >> 32) : 0);
  }

  std::vector<bpf_insn> code_;
};

// r1 has the low bytes of an argument: fills the others as the argument's type does.
void extend(Assembler& code, const Operand& operand) {
  const int32_t bits = 64 - 8 * operand.size_bytes;
  if (bits == 0) return;
  code.compute(BPF_LSH, BPF_REG_1, bits);
  code.compute(operand.is_signed ? BPF_ARSH : BPF_RSH, BPF_REG_1, bits);
}

void add_index(Assembler& code, const Operand& operand) {
  if (operand.index == kNoRegister) return;
  code.load(BPF_REG_1, kContext, operand.index);
  code.compute(BPF_MUL, BPF_REG_1, operand.scale);
  code.add_register(BPF_REG_3, BPF_REG_1);
}

// Reads the argument into r1. Returns the jump that is taken if the program's memory cannot be
// read.
std::optional<size_t> load_operand(Assembler& code, const Operand& operand) {
  if (operand.kind == Operand::Kind::kConstant) {
    code.set(BPF_REG_1, operand.value);
    extend(code, operand);
    return std::nullopt;
  }
  if (operand.kind == Operand::Kind::kRegister) {
    code.load(BPF_REG_1, kContext, operand.base);
    extend(code, operand);
    return std::nullopt;
  }
  code.load(BPF_REG_3, kContext, operand.base);
  add_index(code, operand);
  code.set(BPF_REG_1, operand.value);
  code.add_register(BPF_REG_3, BPF_REG_1);
  code.set(BPF_REG_2, 0);
  code.store(BPF_REG_10, -8, BPF_REG_2);
  code.move(BPF_REG_1, BPF_REG_10);
  code.compute(BPF_ADD, BPF_REG_1, -8);
  code.set(BPF_REG_2, operand.size_bytes);
  code.call(BPF_FUNC_probe_read_user);
  const size_t failed = code.jump_if(BPF_JNE, BPF_REG_0, 0);
  code.load(BPF_REG_1, BPF_REG_10, -8);
  extend(code, operand);
  return failed;
}

// Fills the event that r7 points to. Returns the jumps that are taken if that is not possible.
std::vector<size_t> fill_event(Assembler& code, AllocatorCall call,
                               std::span<const Operand> operands) {
  constexpr std::array<int16_t, 4> kPlaces = {
      offsetof(AllocatorEvent, address), offsetof(AllocatorEvent, device),
      offsetof(AllocatorEvent, size_bytes), offsetof(AllocatorEvent, stream)};
  code.call(BPF_FUNC_ktime_get_ns);
  code.store(kEvent, offsetof(AllocatorEvent, clock_ns), BPF_REG_0);
  code.set(BPF_REG_1, static_cast<int64_t>(call));
  code.store(kEvent, offsetof(AllocatorEvent, call), BPF_REG_1);
  std::vector<size_t> failed;
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    if (i < operands.size()) {
      if (const auto jump = load_operand(code, operands[i])) failed.push_back(*jump);
    } else {
      code.set(BPF_REG_1, 0);
    }
    code.store(kEvent, kPlaces[i], BPF_REG_1);
  }
  return failed;
}

// Reads eight bytes of the recorded program, at the address in r3 plus `offset`, into r8. Returns
// the jump that is taken if that is not possible.
size_t load_pointer(Assembler& code, int32_t offset) {
  code.compute(BPF_ADD, BPF_REG_3, offset);
  code.move(BPF_REG_1, BPF_REG_10);
  code.compute(BPF_ADD, BPF_REG_1, -8);
  code.set(BPF_REG_2, sizeof(uint64_t));
  code.call(BPF_FUNC_probe_read_user);
  const size_t failed = code.jump_if(BPF_JNE, BPF_REG_0, 0);
  code.load(kFrame, BPF_REG_10, -8);
  return failed;
}

// The thread state of the calling thread into r3. Returns the jumps of threads that have none.
std::vector<size_t> find_thread(Assembler& code, const FrameSource& source) {
  std::vector<size_t> none;
  code.set(BPF_REG_1, static_cast<int64_t>(source.namespace_device));
  code.set(BPF_REG_2, static_cast<int64_t>(source.namespace_inode));
  code.move(BPF_REG_3, BPF_REG_10);
  code.compute(BPF_ADD, BPF_REG_3, -8);  // bpf_pidns_info: the thread's number comes first
  code.set(BPF_REG_4, sizeof(bpf_pidns_info));
  code.call(BPF_FUNC_get_ns_current_pid_tgid);
  none.push_back(code.jump_if(BPF_JNE, BPF_REG_0, 0));
  code.set_map(BPF_REG_1, source.threads);
  code.move(BPF_REG_2, BPF_REG_10);
  code.compute(BPF_ADD, BPF_REG_2, -8);
  code.call(BPF_FUNC_map_lookup_elem);
  none.push_back(code.jump_if(BPF_JEQ, BPF_REG_0, 0));
  code.load(BPF_REG_3, BPF_REG_0, 0);
  return none;
}

// Copies the frames behind the event. A loop that is written out: it is one for every kernel.
void copy_frames(Assembler& code, const FrameSource& source) {
  constexpr int16_t kCount = sizeof(AllocatorEvent) + offsetof(CopiedFrames, count);
  constexpr int16_t kFrames = sizeof(AllocatorEvent) + offsetof(CopiedFrames, frames);
  const record::FrameLayout& layout = source.layout;
  code.set(kFrameCount, 0);
  std::vector<size_t> done = find_thread(code, source);
  done.push_back(load_pointer(code, layout.current));
  if (layout.inner_current) {
    code.move(BPF_REG_3, kFrame);
    done.push_back(load_pointer(code, *layout.inner_current));
  }
  const int16_t bytes = static_cast<int16_t>(
      std::max({layout.code, layout.previous, layout.instruction}) + int16_t{8});
  const auto scratch = static_cast<int16_t>(-8 - bytes);
  for (size_t i = 0; i < kMaxPythonFrames; ++i) {
    const auto at = static_cast<int16_t>(kFrames + static_cast<int16_t>(i * sizeof(PythonFrame)));
    done.push_back(code.jump_if(BPF_JEQ, kFrame, 0));
    code.move(BPF_REG_1, BPF_REG_10);
    code.compute(BPF_ADD, BPF_REG_1, scratch);
    code.set(BPF_REG_2, bytes);
    code.move(BPF_REG_3, kFrame);
    code.call(BPF_FUNC_probe_read_user);
    done.push_back(code.jump_if(BPF_JNE, BPF_REG_0, 0));
    code.load(BPF_REG_1, BPF_REG_10, static_cast<int16_t>(scratch + layout.code));
    code.store(kEvent, at, BPF_REG_1);
    code.load(BPF_REG_1, BPF_REG_10, static_cast<int16_t>(scratch + layout.instruction));
    code.store(kEvent, static_cast<int16_t>(at + 8), BPF_REG_1);
    code.load(kFrame, BPF_REG_10, static_cast<int16_t>(scratch + layout.previous));
    code.compute(BPF_ADD, kFrameCount, 1);
  }
  for (const size_t jump : done) code.land(jump);
  code.store(kEvent, kCount, kFrameCount);
}

void end(Assembler& code) {
  code.set(BPF_REG_0, 0);
  code.exit();
}

}  // namespace

Result<std::vector<bpf_insn>> make_program(AllocatorCall call, std::span<const Operand> operands,
                                           const ProgramMaps& maps,
                                           const std::optional<FrameSource>& frames) {
  const size_t expected = call == AllocatorCall::kMalloc ? 4 : 1;
  if (operands.size() < expected) {
    return fail(Code::kUnsupported, "expected a probe with {} arguments, found {}", expected,
                operands.size());
  }
  Assembler code;
  code.move(kContext, BPF_REG_1);
  code.set_map(BPF_REG_1, maps.ring);
  const bool has_frames = frames && call == AllocatorCall::kMalloc;
  code.set(BPF_REG_2, sizeof(AllocatorEvent) + (has_frames ? sizeof(CopiedFrames) : 0));
  code.set(BPF_REG_3, 0);
  code.call(BPF_FUNC_ringbuf_reserve);
  const size_t full = code.jump_if(BPF_JEQ, BPF_REG_0, 0);
  code.move(kEvent, BPF_REG_0);
  const std::vector<size_t> failed = fill_event(code, call, operands.first(expected));
  if (has_frames) copy_frames(code, *frames);
  code.move(BPF_REG_1, kEvent);
  // vram polls: to wake it for each event would cost the recorded thread an interrupt.
  code.set(BPF_REG_2, BPF_RB_NO_WAKEUP);
  code.call(BPF_FUNC_ringbuf_submit);
  end(code);
  if (!failed.empty()) {
    for (const size_t jump : failed) code.land(jump);
    code.move(BPF_REG_1, kEvent);
    code.set(BPF_REG_2, BPF_RB_NO_WAKEUP);
    code.call(BPF_FUNC_ringbuf_discard);
  }
  code.land(full);
  code.set_map_value(BPF_REG_1, maps.lost);
  code.set(BPF_REG_2, 1);
  code.atomic_add(BPF_REG_1, BPF_REG_2);
  end(code);
  return code.take();
}

}  // namespace vram::attach
