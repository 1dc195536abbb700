"""PyTorch works on the pool as on its own allocator: figures, streams, graphs, threads, failures."""

import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

MIB = 1 << 20
GIB = 1 << 30


def block(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def total_bytes() -> int:
    return int(torch.cuda.get_device_properties(0).total_memory)


def test_figures_are_those_of_the_pool(pool: Any) -> None:
    torch.cuda.empty_cache()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    x = block(100 * MIB)
    assert torch.cuda.memory_allocated() - allocated == 100 * MIB
    assert torch.cuda.memory_reserved() - reserved >= 80 * MIB
    assert pool.stats(0).allocated_bytes.current >= 100 * MIB
    torch.cuda.reset_peak_memory_stats()
    del x
    assert torch.cuda.max_memory_allocated() - allocated == 100 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == allocated
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()
    assert torch.cuda.memory_snapshot()


def test_empty_cache_gives_memory_to_others() -> None:
    x = block(GIB)
    del x
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] - free >= GIB - 40 * MIB


def test_values_stay_what_they_were() -> None:
    tensors: list[tuple[Any, int]] = []
    for i in range(2000):
        tensors.append((torch.full(((i * 7919) % 5_000_000 + 1,), float(i), device="cuda"), i))
        if i % 3 == 2:
            tensors.pop((i * 31) % len(tensors))
        if len(tensors) > 300:
            tensors = tensors[150:]
    assert all(bool((x == float(i)).all()) for x, i in tensors)


def test_out_of_memory_is_pytorchs_own_exception_and_says_why() -> None:
    torch.cuda.set_per_process_memory_fraction(4 * GIB / total_bytes())
    try:
        kept = [block(GIB) for _ in range(3)]
        with pytest.raises(torch.OutOfMemoryError) as caught:
            block(2 * GIB)
        assert "CUDA out of memory" in str(caught.value)
        assert "a higher limit: it is 4.00 GiB" in str(caught.value)
        kept.pop()
        assert block(GIB) is not None
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(torch.OutOfMemoryError):
        block(1 << 41)


def test_record_stream_keeps_memory_until_the_stream_is_done() -> None:
    side = torch.cuda.Stream()
    for i in range(50):
        x = torch.full((4 * MIB,), float(i), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            y = x * 2
        x.record_stream(side)
        del x
        overwrites = torch.full((4 * MIB,), -1.0, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        assert bool((y == 2.0 * i).all())
        del y, overwrites


def test_a_graph_replays_while_other_tensors_come_and_go() -> None:
    x = torch.zeros(MIB, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            y = (x * 2 + 1).cumsum(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1).cumsum(0)
    for i in range(5):
        x.fill_(float(i))
        between = [torch.full((MIB // 4,), 9.0, device="cuda") for _ in range(20)]
        graph.replay()
        assert y[9].item() == 10 * (2 * i + 1)
        del between


def test_other_threads_allocate_while_a_graph_is_captured() -> None:
    errors: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not stop.is_set():
                    x = torch.empty(300 * MIB // 4, device="cuda")
                    del x
        except BaseException as error:
            errors.append(error)

    x = torch.ones(MIB, device="cuda")
    thread = threading.Thread(target=work)
    thread.start()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x
            for _ in range(200):
                y = y + 1
    finally:
        stop.set()
        thread.join(timeout=60)
    graph.replay()
    assert not errors
    assert y[0].item() == 201


def test_what_a_captured_stream_uses_is_kept_until_the_capture_ends() -> None:
    others: list[int] = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            others.extend(block(64 * MIB).data_ptr() for _ in range(20))

    x = block(64 * MIB)
    kept = x.data_ptr()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = x + 1
        x.record_stream(torch.cuda.current_stream())
        del x
        others.extend(block(64 * MIB).data_ptr() for _ in range(2))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(timeout=60)
    assert len(others) == 22
    assert kept not in others
    assert y.numel() == 64 * MIB


def test_memory_pools_are_pytorchs_own() -> None:
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        x = torch.ones(4 * MIB, device="cuda")
    y = torch.ones(4 * MIB, device="cuda")
    assert (x + y).sum().item() == 8 * MIB


def test_threads_with_streams_of_their_own() -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(300):
                    x = torch.full((1000 * (i % 37 + 1),), float(number), device="cuda")
                    assert x.sum().item() == number * x.numel()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not errors


def driver_work(pool: Any) -> dict[str, int]:
    ours, torchs = pool.stats(0), torch.cuda.memory_stats(0)
    work = {name: getattr(ours, name) for name in ("driver_calls", "num_device_alloc", "num_device_free", "stitches")}
    return work | {
        f"torch {name}": torchs[name] for name in ("num_device_alloc", "num_device_free", "num_alloc_retries")
    }


def test_a_program_of_fixed_shapes_stops_calling_the_driver(pool: Any) -> None:
    torch.manual_seed(0)
    layers = [
        torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True) for _ in range(4)
    ]
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 256), *layers, torch.nn.Linear(256, 1000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(1000, (16, 129), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    start = driver_work(pool)
    for _ in range(8):  # in the first steps it grows; a step or two later blocks go where they went before
        step()
    settled = driver_work(pool)
    assert settled["driver_calls"] > start["driver_calls"]
    for _ in range(10):
        step()
    assert driver_work(pool) == settled


def test_compiled_programs_with_graphs_of_their_own() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
    fast = torch.compile(model, mode="reduce-overhead")
    for i in range(8):
        x = torch.full((16, 256), float(i), device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.allclose(fast(x), model(x), atol=1e-3)


def test_blocks_outlive_being_disabled(pool: Any) -> None:
    x = torch.ones(MIB, device="cuda")
    pool.disable()
    y = torch.ones(MIB, device="cuda")
    assert (x + y).sum().item() == 2 * MIB
    del x
    pool.enable()
    z = torch.ones(MIB, device="cuda")
    assert (y + z).sum().item() == 2 * MIB
    del y


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_devices_copy_to_each_other() -> None:
    x = torch.arange(10 * MIB, device="cuda:0")
    y = x.to("cuda:1")
    strided = x.view(1024, -1)[:, ::3].to("cuda:1")
    assert bool((y.cpu() == x.cpu()).all())
    assert bool((strided.cpu() == x.view(1024, -1)[:, ::3].cpu()).all())


def test_cupy_stands_on_the_pool(pool: Any) -> None:
    cupy = pytest.importorskip("cupy")
    pool.cupy.enable()
    try:
        before = pool.stats(0).allocation.allocated
        a = cupy.arange(10_000_000)
        assert int(a.sum()) == 10_000_000 * 9_999_999 // 2
        assert pool.stats(0).allocation.allocated > before
        del a
    finally:
        pool.cupy.disable()
