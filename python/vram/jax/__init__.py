"""JAX's device memory profiles and memory settings. Importing this module does not import jax. See docs/tensorflow-jax.md."""

from vram._public import publish as _publish
from vram.jax._profile import Frame, JaxProfile, Site, import_profile
from vram.jax._settings import allocator, memory_fraction, preallocate

__all__ = ["Frame", "JaxProfile", "Site", "allocator", "import_profile", "memory_fraction", "preallocate"]
_publish(globals())
