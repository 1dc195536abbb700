# What every target of ours is compiled with. Third-party headers come in as SYSTEM, so warnings are ours alone.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# ccache where there is one: the presets compile the same sources again and again. Paths below this folder count as relative
# ones, so that another clone or worktree finds what this one has compiled.
find_program(VRAM_CCACHE ccache)
find_program(VRAM_ENV env)
if(VRAM_CCACHE AND VRAM_ENV AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Where its folder can't be written (a home that is read-only) it would fail each compilation.
  file(WRITE "${CMAKE_BINARY_DIR}/ccache_probe.cpp" "")
  execute_process(COMMAND "${VRAM_CCACHE}" "${CMAKE_CXX_COMPILER}" -c ccache_probe.cpp -o ccache_probe.o
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE vram_ccache_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT vram_ccache_fails)
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${VRAM_ENV}" "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime "${VRAM_CCACHE}")
  endif()
endif()

add_library(vram_flags INTERFACE)
target_compile_options(vram_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
# Nobody replaces a function of ours at run time, so g++ may inline what lies in the same file (clang always does).
target_compile_options(vram_flags INTERFACE -fno-semantic-interposition)
target_include_directories(vram_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
find_package(Threads REQUIRED)
target_link_libraries(vram_flags INTERFACE Threads::Threads)
target_compile_definitions(vram_flags INTERFACE VRAM_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # clang counts this one to -Wconversion, g++ does not: both compilers are to ask for the same.
  # And libstdc++'s stable_sort calls what libstdc++ deprecates.
  target_compile_options(vram_flags INTERFACE -Wno-sign-conversion -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps inside std::string's operator+ that are not there (its bug 105651).
  target_compile_options(vram_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND VRAM_UNITY)
  # A source that is included by another one may have members of types that only it knows. The strict build has the warning.
  target_compile_options(vram_flags INTERFACE -Wno-subobject-linkage)
endif()
# What makes a bug that gets at memory harder to use. libvram.so lies in other people's processes, the program reads
# files that others wrote and listens. Not with sanitizers, which see more; FORTIFY takes an optimizing compiler.
if(NOT VRAM_SANITIZE)
  include(CheckPIESupported)
  check_pie_supported()
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection=full VRAM_HAS_CF_PROTECTION)             # x86
  check_cxx_compiler_flag(-mbranch-protection=standard VRAM_HAS_BRANCH_PROTECTION)  # aarch64
  string(TOUPPER "${CMAKE_BUILD_TYPE}" vram_type)
  string(REGEX MATCH "-O[1-3s]" vram_optimizes "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${vram_type}}")
  target_compile_options(vram_flags INTERFACE -fstack-protector-strong
    $<$<BOOL:${VRAM_HAS_CF_PROTECTION}>:-fcf-protection=full>
    $<$<BOOL:${VRAM_HAS_BRANCH_PROTECTION}>:-mbranch-protection=standard>
    $<$<BOOL:${vram_optimizes}>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>)
  target_link_options(vram_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
endif()
if(VRAM_SANITIZE)
  # Warnings are not errors here: a sanitizer's extra code makes g++ guess wrongly (maybe-uninitialized and its kind).
  target_compile_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_definitions(vram_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE})
else()
  target_compile_options(vram_flags INTERFACE -Werror)
endif()
