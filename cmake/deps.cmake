# All third-party libraries, as vram::dep::<name>.
#
# CMake searches for each on the system first. If it is missing, CMake downloads the release named here and compares it with
# its SHA-256. After `make setup`, which installs the packages, nothing is downloaded; -DCMAKE_DISABLE_FIND_PACKAGE_<name>=ON
# downloads all the same. -DFETCHCONTENT_SOURCE_DIR_<NAME>=<folder> uses sources that are on the disk instead.
#
# Headers are included as SYSTEM, so that they cause no warnings.
include(FetchContent)

# vram_dependency(<name> <url> <sha256> [SUBDIR <folder with CMakeLists.txt>] [FIND <arguments of find_package>…])
macro(vram_dependency name url sha256)
  cmake_parse_arguments(dep "" "SUBDIR" "FIND" ${ARGN})
  FetchContent_Declare(${name} URL "${url}" URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP OFF
    SOURCE_SUBDIR "${dep_SUBDIR}" SYSTEM FIND_PACKAGE_ARGS ${dep_FIND})
  FetchContent_MakeAvailable(${name})
  # Builds only the targets of a downloaded project that we link, not its tools and examples.
  string(TOLOWER ${name} dep_lower)
  if(${dep_lower}_SOURCE_DIR)
    cmake_path(APPEND ${dep_lower}_SOURCE_DIR "${dep_SUBDIR}" OUTPUT_VARIABLE dep_directory)
    set_property(DIRECTORY "${dep_directory}" PROPERTY EXCLUDE_FROM_ALL ON)
  endif()
endmacro()

# vram_expose(<name> <target>…): makes the first of the targets that exists vram::dep::<name>.
function(vram_expose name)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      get_target_property(aliased ${target} ALIASED_TARGET)
      if(aliased)
        set(target ${aliased})
      endif()
      add_library(vram::dep::${name} ALIAS ${target})
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${name}: found or downloaded, but it defines none of the targets ${ARGN}")
endfunction()

# Downloaded projects build their library alone. CMP0077 makes them respect these plain variables. Several of these releases
# require the policies of a CMake older than 3.5, which CMake 4 refuses unless a newer minimum is set.
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
set(BUILD_SHARED_LIBS OFF)
set(BUILD_TESTING OFF)

# fmt: text formatting (g++ 12 has no std::format). MIT. A static library in every build: libvram.so and the wheel must
# need nothing at run time, and fmt compiled into every file would cost three seconds a file.
vram_dependency(fmt https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2 FIND 9)
if(fmt_SOURCE_DIR)  # downloaded: already a static library
  vram_expose(fmt fmt::fmt)
elseif(fmt_VERSION VERSION_LESS 11)
  add_library(vram_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt.cpp")
  target_compile_features(vram_fmt PUBLIC cxx_std_20)
  get_target_property(fmt_INCLUDE_DIRS fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(vram_fmt SYSTEM PUBLIC ${fmt_INCLUDE_DIRS})
  vram_expose(fmt vram_fmt)
else()
  vram_expose(fmt fmt::fmt-header-only)
endif()

# tl::expected: Result<T> (std::expected comes with C++23). Header-only. CC0.
set(EXPECTED_BUILD_TESTS OFF)
vram_dependency(tl-expected https://github.com/TartanLlama/expected/archive/refs/tags/v1.1.0.tar.gz
  1db357f46dd2b24447156aaf970c4c40a793ef12a8a9c2ad9e096d9801368df6 FIND 1.0)
vram_expose(expected tl::expected)

# CLI11: the command line, in cli/ alone. Header-only. BSD-3.
vram_dependency(CLI11 https://github.com/CLIUtils/CLI11/archive/v2.4.2.tar.gz
  f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a FIND 2.1)
vram_expose(cli11 CLI11::CLI11)

# nlohmann_json: JSON, in base/json.hpp alone. Header-only. MIT.
set(JSON_BuildTests OFF)
vram_dependency(nlohmann_json https://github.com/nlohmann/json/archive/v3.11.2.tar.gz
  d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273 FIND 3.11)
vram_expose(json nlohmann_json::nlohmann_json)

# protozero: protobuf, in exports/ for the formats of Perfetto and pprof. It writes fields straight to a text; Google's library
# would need generated code and a run-time library of 3 MB. Header-only. BSD-2. Debian's package has no CMake files, and in the
# folder `include` upstream has none either, so that nothing but the headers is used.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  FetchContent_Declare(protozero URL https://github.com/mapbox/protozero/archive/refs/tags/v1.7.1.tar.gz
    URL_HASH SHA256=27e0017d5b3ba06d646a3ec6391d5ccc8500db821be480aefd2e4ddc3de5ff99 DOWNLOAD_EXTRACT_TIMESTAMP OFF
    SOURCE_SUBDIR include)
  FetchContent_MakeAvailable(protozero)
  set(PROTOZERO_INCLUDE_DIR "${protozero_SOURCE_DIR}/include")
endif()
add_library(vram_protozero INTERFACE)
target_include_directories(vram_protozero SYSTEM INTERFACE "${PROTOZERO_INCLUDE_DIR}")
vram_expose(protozero vram_protozero)

# zstd: the frames of .vtrace files, and .zst snapshots. BSD-3. A static library in every build, since libvram.so contains it.
set(vram_saved_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(ZSTD_BUILD_PROGRAMS OFF)
set(ZSTD_BUILD_SHARED OFF)
vram_dependency(zstd https://github.com/facebook/zstd/releases/download/v1.5.5/zstd-1.5.5.tar.gz
  9c4396cc829cfae319a6e2615202e82aad41372073482fce286fac78646d3ee4 SUBDIR build/cmake FIND 1.4 MODULE)
if(TARGET libzstd_static)  # upstream's target has no include directory
  target_include_directories(libzstd_static SYSTEM INTERFACE "$<BUILD_INTERFACE:${zstd_SOURCE_DIR}/lib>")
endif()
vram_expose(zstd zstd::zstd libzstd_static)

# The other compressors, SQLite and ncurses are static libraries unless VRAM_STATIC is off: then the machine that runs the
# program needs none of them, and parts that are not used are not in memory.
if(NOT VRAM_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${vram_saved_suffixes})
endif()

# zlib: .gz snapshots. Zlib licence.
set(ZLIB_BUILD_EXAMPLES OFF)
vram_dependency(ZLIB https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
  9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23 FIND 1.2)
if(TARGET zlibstatic)  # nor has zlib's; zconf.h is generated in the build folder
  target_include_directories(zlibstatic SYSTEM INTERFACE "${zlib_SOURCE_DIR}" "${zlib_BINARY_DIR}")
endif()
vram_expose(zlib ZLIB::ZLIB zlibstatic)

# liblzma: .xz snapshots. Public domain (0BSD from 5.6 on). Ninja refuses the symbolic links of its tools.
set(CREATE_XZ_SYMLINKS OFF)
set(CREATE_LZMA_SYMLINKS OFF)
vram_dependency(LibLZMA https://github.com/tukaani-project/xz/releases/download/v5.4.7/xz-5.4.7.tar.gz
  8db6664c48ca07908b92baedcfe7f3ba23f49ef2476864518ab5db6723836e71 FIND 5.2)
if(TARGET liblzma)  # nor has liblzma's
  target_include_directories(liblzma SYSTEM INTERFACE "$<BUILD_INTERFACE:${liblzma_SOURCE_DIR}/src/liblzma/api>")
endif()
vram_expose(lzma LibLZMA::LibLZMA liblzma)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${vram_saved_suffixes})

# These libraries are not downloaded, since their releases are large or need tools of their own: the system's packages have
# them.
function(vram_needs variable name packages)
  if(NOT ${variable})
    message(FATAL_ERROR "${name} is missing: install ${packages} (`make setup` does), or set CMAKE_PREFIX_PATH "
      "to its folder; on a system without static libraries, -DVRAM_STATIC=OFF uses shared ones")
  endif()
endfunction()

# Boost.Beast and Asio: HTTP, in serve/ and alerts/delivery/: one thread for any number of slow clients. Header-only. BSL-1.0.
find_path(BOOST_INCLUDE_DIR boost/beast/http.hpp)
vram_needs(BOOST_INCLUDE_DIR "Boost (1.74 or newer)" "libboost-dev")
find_package(Threads REQUIRED)
add_library(vram_beast INTERFACE)
target_include_directories(vram_beast SYSTEM INTERFACE "${BOOST_INCLUDE_DIR}")
# Asio 1.74 uses std::result_of, which C++20 has removed and libc++ no longer has, unless this macro is set.
target_compile_definitions(vram_beast INTERFACE BOOST_ERROR_CODE_HEADER_ONLY BOOST_ASIO_NO_DEPRECATED
  BOOST_ASIO_HAS_STD_INVOKE_RESULT=1)
target_link_libraries(vram_beast INTERFACE Threads::Threads)
vram_expose(beast vram_beast)

# toml++: files of alert rules and settings, in base/toml.cpp alone. Header-only. MIT.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
vram_needs(TOMLPLUSPLUS_INCLUDE_DIR "toml++ (3.x)" "libtomlplusplus-dev")
add_library(vram_toml INTERFACE)
target_include_directories(vram_toml SYSTEM INTERFACE "${TOMLPLUSPLUS_INCLUDE_DIR}")
target_compile_definitions(vram_toml INTERFACE TOML_EXCEPTIONS=0)
vram_expose(toml vram_toml)

# stb: PNG pictures, in pictures/ alone: stb_truetype draws text and areas, stb_image_write the file. nanosvg, Cairo and Skia
# were alternatives: the first draws no text and is in no package of Debian 12, the others are shared libraries with
# dependencies of their own. Header-only. MIT or public domain.
find_path(STB_INCLUDE_DIR stb/stb_truetype.h)
vram_needs(STB_INCLUDE_DIR "stb" "libstb-dev")
add_library(vram_stb INTERFACE)
target_include_directories(vram_stb SYSTEM INTERFACE "${STB_INCLUDE_DIR}")
vram_expose(stb vram_stb)

# SQLite: past samples, in history/ alone. Public domain. ncurses: the terminal of `vram top`, in show/ alone. MIT (X11).
if(VRAM_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
find_path(SQLITE3_INCLUDE_DIR sqlite3.h)
find_library(SQLITE3_LIBRARY NAMES sqlite3)
vram_needs(SQLITE3_LIBRARY "SQLite (3.38 or newer)" "libsqlite3-dev")
add_library(vram_sqlite INTERFACE)
target_include_directories(vram_sqlite SYSTEM INTERFACE "${SQLITE3_INCLUDE_DIR}")
target_link_libraries(vram_sqlite INTERFACE "${SQLITE3_LIBRARY}" Threads::Threads ${CMAKE_DL_LIBS} m)
vram_expose(sqlite vram_sqlite)

find_path(NCURSES_INCLUDE_DIR curses.h)
find_library(NCURSES_LIBRARY NAMES ncursesw)
find_library(TINFO_LIBRARY NAMES tinfo)
vram_needs(NCURSES_LIBRARY "ncurses (6, with wide characters)" "libncurses-dev")
add_library(vram_ncurses INTERFACE)
target_include_directories(vram_ncurses SYSTEM INTERFACE "${NCURSES_INCLUDE_DIR}")
target_compile_definitions(vram_ncurses INTERFACE NCURSES_WIDECHAR=1)
target_link_libraries(vram_ncurses INTERFACE "${NCURSES_LIBRARY}" $<$<BOOL:${TINFO_LIBRARY}>:${TINFO_LIBRARY}>)
vram_expose(ncurses vram_ncurses)
if(VRAM_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${vram_saved_suffixes})
endif()

# GoogleTest and GoogleMock: the tests. BSD-3.
if(VRAM_TESTS)
  set(INSTALL_GTEST OFF)
  vram_dependency(GTest https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz
    81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2 FIND 1.12 CONFIG)
  add_library(vram_gtest INTERFACE)
  target_link_libraries(vram_gtest INTERFACE GTest::gmock GTest::gtest_main)
  vram_expose(gtest vram_gtest)
endif()

# Google Benchmark: the figures in docs/benchmarks.md. Apache-2.0.
if(VRAM_BENCH)
  set(BENCHMARK_ENABLE_TESTING OFF)
  vram_dependency(benchmark https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7 FIND 1.7)
  vram_expose(benchmark benchmark::benchmark_main)
endif()
