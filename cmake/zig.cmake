# The toolchain of portable packages: zig's clang with libc++ and glibc's stubs of the version asked for, for this processor
# or another (tools/wheels.py; docs/packages.md). VRAM_ZIG_TOOLS: the folder with cc, c++, ar and ranlib, which know the
# target. VRAM_SYSROOT: the folder with third-party headers and archives; nothing of this machine's is taken instead.
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

# Warnings are judged by the compilers of `make test`, not by the newest clang; unused functions of archives go at the link.
# Sources name themselves in messages (__FILE__) by their path below the root, wherever that was when they were compiled.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
set(CMAKE_C_FLAGS_INIT "-w -ffunction-sections -fdata-sections -ffile-prefix-map=${root}/=")
set(CMAKE_CXX_FLAGS_INIT "-w -ffile-prefix-map=${root}/=")
# Symbols are left out by the linker: the host's strip may not know the target.
# Programs take the system's unwinder, so that they can catch what libraries throw (tools/portable.py).
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-s ${VRAM_SYSROOT}/usr/lib/unwinder.so")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-s")
