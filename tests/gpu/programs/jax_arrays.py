"""Makes arrays with JAX and prints what JAX counted; to be recorded through the driver."""

from __future__ import annotations

import importlib
import json
from typing import Any

jax: Any = importlib.import_module("jax")


def main() -> None:
    result: dict[str, Any] = {"backend": jax.default_backend()}
    if result["backend"] == "gpu":
        numpy = jax.numpy
        kept = [numpy.full((64 << 20,), float(i), dtype="float32") for i in range(3)]  # 256 MiB each
        product = jax.jit(lambda x: x @ x.T)(numpy.ones((2048, 2048), dtype="float32"))
        result["sum"] = sum(float(array[0]) for array in kept) + float(product[0, 0])
        result["peak"] = jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
