# The compiler options of all our targets. Third-party headers are included as SYSTEM, so that they cause no warnings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Uses ccache if it is installed, since the presets compile the same sources again and again. Paths below this folder count as
# relative, so that another clone or worktree can reuse the results of this one.
find_program(VRAM_CCACHE ccache)
find_program(VRAM_ENV env)
if(VRAM_CCACHE AND VRAM_ENV AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # If its folder cannot be written (a read-only home), ccache would make each compilation fail.
  file(WRITE "${CMAKE_BINARY_DIR}/ccache_probe.cpp" "")
  execute_process(COMMAND "${VRAM_CCACHE}" "${CMAKE_CXX_COMPILER}" -c ccache_probe.cpp -o ccache_probe.o
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE vram_ccache_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT vram_ccache_fails)
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${VRAM_ENV}" "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime "${VRAM_CCACHE}")
  endif()
endif()

if(VRAM_SYNTAX_ONLY)
  # The compiler still writes which headers a source reads, so only what a change affects is checked again.
  set(CMAKE_CXX_COMPILE_OBJECT
    "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>" "<CMAKE_COMMAND> -E touch <OBJECT>")
  foreach(product IN ITEMS CREATE_STATIC_LIBRARY CREATE_SHARED_LIBRARY CREATE_SHARED_MODULE LINK_EXECUTABLE)
    set(CMAKE_CXX_${product} "<CMAKE_COMMAND> -E touch <TARGET>")
  endforeach()
endif()

add_library(vram_flags INTERFACE)
target_compile_options(vram_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
# Our functions are never replaced at run time, so g++ may inline those of the same file (clang always does).
target_compile_options(vram_flags INTERFACE -fno-semantic-interposition)
# __FILE__ in our messages and the paths in debug information begin at this folder, wherever it lies: a build reveals no path of
# its machine, and ccache reuses the results of another clone for files with VRAM_CHECK.
target_compile_options(vram_flags INTERFACE "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
target_include_directories(vram_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
find_package(Threads REQUIRED)
target_link_libraries(vram_flags INTERFACE Threads::Threads)
target_compile_definitions(vram_flags INTERFACE VRAM_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # -Wconversion includes -Wsign-conversion in clang and not in g++: both compilers should warn of the same things. And
  # libstdc++'s stable_sort calls a function that libstdc++ deprecates.
  target_compile_options(vram_flags INTERFACE -Wno-sign-conversion -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of overlaps inside std::string's operator+ where there are none (its bug 105651).
  target_compile_options(vram_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND VRAM_UNITY)
  # In a unity build a source is included by another one, and g++ warns of members whose types are local to it. The strict
  # build has the warning.
  target_compile_options(vram_flags INTERFACE -Wno-subobject-linkage)
endif()
# Hardening makes memory errors harder to exploit: libvram.so is loaded into other people's processes, and the program reads
# untrusted files and listens on the network. Sanitizers detect more, so it is off with them; FORTIFY requires optimization.
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
  # Warnings are not errors here: a sanitizer's extra code causes false ones in g++ (maybe-uninitialized and similar ones).
  target_compile_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_definitions(vram_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(vram_flags INTERFACE -fsanitize=${VRAM_SANITIZE})
else()
  target_compile_options(vram_flags INTERFACE -Werror)
endif()
