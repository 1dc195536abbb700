# The toolchain of the portable packages: zig's clang with libc++ and with the stubs of a chosen glibc version, for this
# processor or another (tools/wheels.py; docs/packages.md). VRAM_ZIG_TOOLS is the folder with cc, c++, ar and ranlib for the
# target. VRAM_SYSROOT is the folder with the third-party headers and static libraries; this machine's own are not used.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${VRAM_ZIG_ARCHITECTURE}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VRAM_ZIG_TOOLS VRAM_ZIG_ARCHITECTURE VRAM_SYSROOT)
set(CMAKE_C_COMPILER "${VRAM_ZIG_TOOLS}/cc")
set(CMAKE_CXX_COMPILER "${VRAM_ZIG_TOOLS}/c++")
set(CMAKE_AR "${VRAM_ZIG_TOOLS}/ar" CACHE FILEPATH "Archiver")
set(CMAKE_RANLIB "${VRAM_ZIG_TOOLS}/ranlib" CACHE FILEPATH "Indexer of archives")

set(CMAKE_FIND_ROOT_PATH "${VRAM_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Warnings are off, since the compilers of `make test` check them; the linker drops unused functions of static libraries.
# __FILE__ is the path below the root, wherever the root was when the source was compiled.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
set(CMAKE_C_FLAGS_INIT "-w -ffunction-sections -fdata-sections -ffile-prefix-map=${root}/=")
set(CMAKE_CXX_FLAGS_INIT "-w -ffile-prefix-map=${root}/=")
# The linker strips the symbols, since the host's strip may not support the target. Programs use the system's unwinder, so that
# they can catch exceptions that libraries throw (tools/portable.py).
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-s ${VRAM_SYSROOT}/usr/lib/unwinder.so")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-s")
