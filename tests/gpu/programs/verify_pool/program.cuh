// A thread's random program: what it does with blocks (blocks.cuh), and besides that it captures
// graphs, replaces streams, trims the pool, asks it for figures, and uses blocks of other devices.
//
// What a graph names lives until the graph's last launch is queued. A graph is launched in the
// stream that it was captured in, and destroyed when its last launch is done.
#pragma once

#include "blocks.cuh"

class Program : private Blocks {
 public:
  Program(Machine& machine, int thread) : Blocks(machine, thread) {
    for (int device = 0; device < machine.options.devices; ++device) {
      Side side;
      on(device);
      check(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
      for (cudaEvent_t* event : {&side.fork, &side.join}) {
        check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      }
      sides_.push_back(side);
    }
  }

  void run() {
    while (!machine_.should_stop) step();
    worker_.doing = "freeing what is left";
    while (!graphs_.empty()) retire(graphs_.size() - 1);
    while (!blocks_.empty()) free_block(blocks_.size() - 1);
    free_all(machine_.handed_over);
    free_all(machine_.spare);
    worker_.doing = "destroying what is left";
    for (size_t device = 0; device < sides_.size(); ++device) {
      check(memory(static_cast<int>(device)).forget_stream(sides_[device].stream),
            "vram_forget_stream");
      on(static_cast<int>(device));
      check(cudaStreamSynchronize(sides_[device].stream), "cudaStreamSynchronize");
      check(cudaStreamDestroy(sides_[device].stream), "cudaStreamDestroy");
    }
    while (!dying_.empty()) {
      destroy_finished_graphs();
      std::this_thread::yield();
    }
    worker_.doing = "done";
  }

 private:
  // For a capture's second branch; no other thread uses it.
  struct Side {
    cudaStream_t stream = nullptr;
    cudaEvent_t fork = nullptr, join = nullptr;
  };
  struct Graph {
    Slot* slot = nullptr;
    Life* life = nullptr;
    cudaGraphExec_t exec = nullptr;
    std::vector<Block> blocks;
    Word checks = 0, checked_words = 0;  // of a launch
  };
  struct DyingGraph {
    cudaGraphExec_t exec = nullptr;
    cudaEvent_t done = nullptr;  // behind the last launch
    bool is_own_event = false;
  };
  using Alone = std::unique_lock<std::shared_mutex>;

  void step() {
    static constexpr struct {
      Word weight;  // of 10000
      const char* name;
      void (Program::*operation)();
    } kOperations[] = {
        {3300, "allocating", &Program::allocate},
        {2700, "freeing", &Program::free_any},
        {1200, "checking", &Program::verify_any},
        {700, "writing", &Program::write_again},
        {1000, "using elsewhere", &Program::use_elsewhere},
        {300, "handing over", &Program::hand_over},
        {300, "taking over", &Program::take_over},
        {100, "sparing", &Program::spare},
        {30, "capturing", &Program::capture},
        {120, "launching a graph", &Program::launch_graph},
        {4, "trimming", &Program::trim},
        {8, "replacing a stream", &Program::replace_stream},
        {38, "asking", &Program::ask},
        {100, "copying to a peer", &Program::copy_to_peer},
        {100, "checking from a peer", &Program::verify_from_peer},
    };
    Word dice = below(10000);
    for (const auto& one : kOperations) {
      if (dice >= one.weight) {
        dice -= one.weight;
        continue;
      }
      if (machine_.options.without.find(one.name) != std::string::npos) return;
      worker_.doing = one.name;
      (this->*one.operation)();
      add(worker_.counters.operations);
      return;
    }
  }

  // Alone with the slot, or not: then another thread uses it.
  static Alone alone_with(Slot& slot) {
    Alone alone(slot.lock, std::defer_lock);
    for (int tries = 0; tries < 2000 && !alone.try_lock(); ++tries) std::this_thread::yield();
    return alone;
  }
  void capture() {
    Slot& slot = any_slot(any_device());
    const Alone alone = alone_with(slot);
    if (!alone.owns_lock() || graphs_.size() >= 4) return;
    on(slot.device);
    Graph graph;
    graph.slot = &slot;
    graph.life = slot.life;
    const cudaStream_t stream = graph.life->stream;
    const auto mode = chance(500) ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed;
    note("is captured", stream);
    vram_pool* const pool = memory(slot.device).pool;
    if (pool != nullptr) check(vram_begin_capture(pool), "vram_begin_capture");
    check(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
    const cudaError_t filled = fill(&graph);
    cudaGraph_t captured = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
    if (pool != nullptr) check(vram_end_capture(pool), "vram_end_capture");
    note("is captured no more", stream);
    add(worker_.counters.captures);
    if (filled == cudaSuccess && ended == cudaSuccess) {
      check(cudaGraphInstantiateWithFlags(&graph.exec, captured, 0),
            "cudaGraphInstantiateWithFlags");
      graphs_.push_back(std::move(graph));
    } else {
      add(worker_.counters.broken_captures);
      machine_.fail(std::string("a capture broke: within it ") + cudaGetErrorName(filled) +
                    ", at its end " + cudaGetErrorName(ended));
      (void)cudaGetLastError();
      for (const Block& block : graph.blocks) release(block);
    }
    if (captured != nullptr) check(cudaGraphDestroy(captured), "cudaGraphDestroy");
  }
  // What is captured: new blocks are written and checked, some in a second branch; an older block
  // is checked.
  cudaError_t fill(Graph* graph) {
    const cudaStream_t stream = graph->life->stream;
    const auto older = std::find_if(blocks_.begin(), blocks_.end(), [graph](const Block& block) {
      return block.life == graph->life;
    });
    if (older != blocks_.end()) {
      graph->blocks.push_back(take_block(static_cast<size_t>(older - blocks_.begin())));
      const cudaError_t result = capture_check(graph, graph->blocks.back(), stream);
      if (result != cudaSuccess) return result;
    }
    for (Word count = 1 + below(4); count > 0; --count) {
      Block block;
      if (request(*graph->slot, any_size() / 8 / sizeof(Word) * sizeof(Word), &block) != VRAM_OK)
        continue;
      block.tag = new_tag();
      graph->blocks.push_back(block);
      cudaError_t result = try_write(block, stream);
      if (result == cudaSuccess) result = capture_check(graph, block, stream);
      if (result == cudaSuccess && chance(300)) result = capture_branch(graph, block);
      if (result != cudaSuccess) return result;
      if (chance(400)) go_on_beside_capture(*graph->slot);
    }
    return cudaSuccess;
  }
  cudaError_t capture_check(Graph* graph, const Block& block, cudaStream_t stream) {
    ++graph->checks;
    graph->checked_words += block.words();
    return try_verify(block, block.device, stream);
  }
  cudaError_t capture_branch(Graph* graph, const Block& block) {
    const Side& side = sides_[static_cast<size_t>(block.device)];
    const cudaStream_t stream = graph->life->stream;
    cudaError_t result = cudaEventRecord(side.fork, stream);
    if (result == cudaSuccess) result = cudaStreamWaitEvent(side.stream, side.fork, 0);
    if (result == cudaSuccess) result = capture_check(graph, block, side.stream);
    if (chance(500))
      check(memory(block.device).record_stream(block.address, side.stream), "vram_record_stream");
    if (result == cudaSuccess) result = cudaEventRecord(side.join, side.stream);
    return result == cudaSuccess ? cudaStreamWaitEvent(stream, side.join, 0) : result;
  }
  // Calls about other streams, by the thread that captures. No lock is waited for: this thread
  // holds one alone.
  void go_on_beside_capture(const Slot& captured) {
    const Word dice = below(10);
    Slot& slot = any_slot(captured.device);
    if (dice == 0 && memory(captured.device).pool != nullptr) {
      (void)vram_trim(memory(captured.device).pool, below(size_t{64} << 20));
    } else if (dice < 5 && !blocks_.empty()) {
      release(take_block(below(blocks_.size())));
    } else if (&slot != &captured) {
      const Shared shared(slot.lock, std::try_to_lock);
      if (shared.owns_lock()) allocate_in(slot);
    }
  }
  void launch_graph() {
    destroy_finished_graphs();
    if (graphs_.empty()) return;
    const size_t index = below(graphs_.size());
    Graph& graph = graphs_[index];
    {
      // Alone: a wait that another thread queues in the stream while a graph is launched there may
      // be lost (lost_wait.cu shows it without vram).
      const Alone alone = alone_with(*graph.slot);
      if (!alone.owns_lock()) return;
      if (graph.slot->life == graph.life) {
        on(graph.slot->device);
        const cudaStream_t stream = graph.life->stream;
        if (chance(200)) delay(graph.slot->device, stream);
        for (const Block& block : graph.blocks) note("launched in a graph", block);
        check(cudaGraphLaunch(graph.exec, stream), "cudaGraphLaunch");
        count_checks(graph.checks, graph.checked_words);
        if (!graph.blocks.empty()) verify(graph.blocks[below(graph.blocks.size())], stream);
        add(worker_.counters.graph_launches);
      }
    }
    if (graph.slot->life != graph.life || chance(200)) retire(index);
  }
  // The graph is not launched any more: its blocks are free while its last launch may still be
  // queued.
  void retire(size_t index) {
    std::swap(graphs_[index], graphs_.back());
    const Graph graph = std::move(graphs_.back());
    graphs_.pop_back();
    DyingGraph dying{graph.exec, graph.life->end, false};
    {
      const Shared shared(graph.slot->lock);
      if (graph.slot->life == graph.life) {
        on(graph.slot->device);
        dying.is_own_event = true;
        check(cudaEventCreateWithFlags(&dying.done, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
        check(cudaEventRecord(dying.done, graph.life->stream), "cudaEventRecord");
      }
    }
    dying_.push_back(dying);
    for (const Block& block : graph.blocks) release(block);
  }
  void destroy_finished_graphs() {
    const auto is_finished = [this](const DyingGraph& graph) {
      const cudaError_t result = cudaEventQuery(graph.done);
      if (result == cudaErrorNotReady) return false;
      check(result, "cudaEventQuery");
      check(cudaGraphExecDestroy(graph.exec), "cudaGraphExecDestroy");
      if (graph.is_own_event) check(cudaEventDestroy(graph.done), "cudaEventDestroy");
      return true;
    };
    dying_.erase(std::remove_if(dying_.begin(), dying_.end(), is_finished), dying_.end());
  }

  void trim() {
    const Memory& of = memory(any_device());
    if (of.pool == nullptr) return;
    (void)vram_trim(of.pool, chance(200) ? SIZE_MAX : below(machine_.options.limit_bytes));
    add(worker_.counters.trims);
  }
  void replace_stream() {
    Slot& slot = any_slot(any_device());
    const Alone alone = alone_with(slot);
    if (!alone.owns_lock()) return;
    on(slot.device);
    Life* const old = slot.life;
    if (chance(500)) delay(slot.device, old->stream);
    check(cudaEventRecord(old->end, old->stream), "cudaEventRecord");
    check(memory(slot.device).forget_stream(old->stream), "vram_forget_stream");
    check(cudaStreamDestroy(old->stream), "cudaStreamDestroy");
    slot.life = machine_.begin_life(slot.device, chance(300));
    add(worker_.counters.forgotten_streams);
  }
  // What the pool says of a block, and texts that are written while others change what they are
  // about.
  void ask() {
    if (blocks_.empty()) return;
    const Block& block = blocks_[below(blocks_.size())];
    vram_pool* const pool = memory(block.device).pool;
    if (pool == nullptr) return;
    char text[2000];
    (void)vram_explain_oom(pool, text, sizeof text);
    vram_stats stats{};
    stats.struct_bytes = sizeof stats;
    check(vram_get_stats(pool, &stats), "vram_get_stats");
    const Shared shared(block.slot->lock);
    vram_block_info info{};
    const vram_status found = vram_find_block(pool, block.address + block.words() - 1, &info);
    if (found != VRAM_OK || info.address != block.address || info.requested_bytes != block.bytes ||
        (!is_orphan(block) && info.stream != block.life->stream)) {
      machine_.fail("vram_find_block does not know a live block as it is");
    }
    if (vram_owns(block.address) != 1) machine_.fail("vram_owns denies a live block");
  }

  // A stream of the block's device copies it into a new block of another device, whose stream waits
  // for the copy.
  void copy_to_peer() {
    if (machine_.options.devices < 2 || blocks_.empty()) return;
    Block& block = blocks_[below(blocks_.size())];
    const int device = (block.device + 1) % machine_.options.devices;
    Slot& copying = any_slot(block.device);
    Slot& slot = any_slot(device);
    if (&copying == block.slot) return;
    const Shared shared(block.slot->lock), shared_copying(copying.lock), shared_other(slot.lock);
    Block copy;
    if (is_orphan(block) || request(slot, block.bytes, &copy) != VRAM_OK) return;
    const cudaStream_t stream = copying.life.load()->stream;
    order(block.device, block.life->stream, block.device, stream);
    order(device, copy.life->stream, block.device, stream);
    delay(block.device, stream);
    check(
        cudaMemcpyPeerAsync(copy.address, device, block.address, block.device, block.bytes, stream),
        "cudaMemcpyPeerAsync");
    check(memory(block.device).record_stream(block.address, stream), "vram_record_stream");
    block.is_only_read = true;
    order(block.device, stream, device, copy.life->stream);
    copy.tag = block.tag;
    verify(copy, copy.life->stream);
    write(copy, copy.life->stream);
    blocks_.push_back(copy);
    add(worker_.counters.copies);
  }
  // Kernels of one device read another device's block.
  void verify_from_peer() {
    if (machine_.options.devices < 2 || blocks_.empty()) return;
    const Block& block = blocks_[below(blocks_.size())];
    const int device = (block.device + 1) % machine_.options.devices;
    Slot& slot = any_slot(device);
    const Shared shared(block.slot->lock), shared_other(slot.lock);
    if (is_orphan(block)) return;
    const cudaStream_t stream = slot.life.load()->stream;
    order(block.device, block.life->stream, device, stream);
    verify(block, device, stream);
    order(device, stream, block.device, block.life->stream);
    add(worker_.counters.other_stream_uses);
  }

  std::vector<Side> sides_;  // by device
  std::vector<Graph> graphs_;
  std::vector<DyingGraph> dying_;
  size_t target_bytes_ = 0;
  size_t live_bytes_ = 0;
};
