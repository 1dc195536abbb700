"""What becomes of blocks when the allocator under them changes; named on the command line, said as JSON."""

import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import vram

torch: Any = importlib.import_module("torch")
MIB = 1 << 20
GIB = 1 << 30


def block(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def is_read_before_it_is_overwritten(allocate: Callable[[float], Any], between: Callable[[], None]) -> bool:
    """A side stream reads a tensor that dies meanwhile; its memory must not be handed out before."""
    side = torch.cuda.Stream()
    x = allocate(1.0)
    side.wait_stream(torch.cuda.current_stream())
    vram.disable()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        y = x * 2
    x.record_stream(side)
    del x
    between()
    overwrites = [allocate(-1.0) for _ in range(4)]
    torch.cuda.synchronize()
    del overwrites
    return bool((y == 2.0).all())


def streams_after_disable() -> Any:
    def full(value: float) -> Any:
        return torch.full((4 * MIB,), value, device="cuda")

    vram.enable()
    own = torch.cuda.MemPool()

    def in_private_pool(value: float) -> Any:
        with torch.cuda.use_mem_pool(own):
            return full(value)

    def enable() -> None:
        vram.enable()

    pools = is_read_before_it_is_overwritten(full, enable)
    adopted = is_read_before_it_is_overwritten(in_private_pool, lambda: None)
    vram.enable()
    x = block(GIB)
    del x
    vram.disable()
    torch.cuda.empty_cache()
    return {"pools": pools, "adopted": adopted, "reserved": vram.stats(0).reserved_bytes.current}


def caching_switch() -> Any:
    vram.enable()
    torch.cuda.memory.caching_allocator_enable(False)
    x = block(64 * MIB)
    torch.cuda.memory.caching_allocator_enable(True)
    del x
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        a, b = block(4 * MIB), block(4 * MIB)
    b.fill_(7)
    torch.cuda.memory.caching_allocator_enable(False)
    del a
    other = block(20 * MIB).fill_(9)
    is_kept = bool((b == 7).all())
    del b, other
    torch.cuda.memory.caching_allocator_enable(True)
    return {"is_kept": is_kept}


def fork_before_cuda() -> Any:
    vram.enable()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        own = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(own):
            x = block(64 * MIB)
        del x, own
        y = block(64 * MIB)
        del y
        torch.cuda.empty_cache()
        os.write(write, json.dumps(torch.cuda.memory_reserved()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return {"reserved": json.loads(os.read(read, 100))}


def peers_before_enable() -> Any:
    torch.arange(10, device="cuda:0").to("cuda:1")
    vram.enable()
    x = torch.arange(10 * MIB, device="cuda:0")
    strided = x.view(1024, -1)[:, ::3].to("cuda:1")
    back = torch.arange(10 * MIB, device="cuda:1").view(1024, -1)[:, ::3].to("cuda:0")
    expected = x.cpu().view(1024, -1)[:, ::3]
    return {"is_equal": bool((strided.cpu() == expected).all()) and bool((back.cpu() == expected).all())}


def captures_under_pressure() -> Any:
    """Threads that can be served only by waiting for other streams, or not at all, while graphs are captured."""
    vram.enable(device_limit="1GiB")
    stop = threading.Event()
    refused = [0]
    wrong: list[str] = []

    def work() -> None:
        mine, other = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(mine):
            while not stop.is_set():
                try:
                    x = block(600 * MIB)
                    other.wait_stream(mine)
                    with torch.cuda.stream(other):
                        torch.cuda._sleep(1_000_000)
                    x.record_stream(other)
                    del x
                    if refused[0] % 50 == 49:
                        torch.cuda.empty_cache()
                except torch.OutOfMemoryError:
                    refused[0] += 1
                except RuntimeError as error:
                    wrong.append(str(error))
                    return

    threads = [threading.Thread(target=work) for _ in range(3)]
    x = torch.ones(MIB, device="cuda")
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    broken = 0
    for _ in range(300):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                y = x
                for _ in range(50):
                    y = y + 1
            del y, graph
        except RuntimeError:
            broken += 1
    stop.set()
    for thread in threads:
        thread.join(timeout=120)
    return {"broken": broken, "wrong": wrong, "refused": refused[0]}


def cured_out_of_memory() -> Any:
    vram.enable()
    observed: list[int] = []

    def observe(_device: int, size: int, _total: int, _free: int) -> None:
        observed.append(size)

    torch._C._cuda_attach_out_of_memory_observer(observe)
    free = torch.cuda.mem_get_info()[0]
    x = block(free * 3 // 4)
    del x
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        x = block(free // 2)
    return {"observed": observed, "bytes": x.numel()}


def main() -> None:
    print(json.dumps(globals()[sys.argv[1]]()))


main()
