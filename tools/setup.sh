#!/usr/bin/env bash
# Installs the packages that this machine lacks, and prints them: setup.sh build | python | test | wheels. It uses apt on Debian 12
# and Ubuntu 24.04; on another system it lists what is needed and continues. If nothing is missing, it takes a fraction of a second.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config ccache git ca-certificates
  libfmt-dev libexpected-dev libcli11-dev nlohmann-json3-dev libprotozero-dev libzstd-dev zlib1g-dev liblzma-dev
  libboost-dev libstb-dev libtomlplusplus-dev libsqlite3-dev libncurses-dev)
python=(python3 python3-venv gettext)
test=(libgtest-dev libgmock-dev libbenchmark-dev golang-go binutils tmux chromium zsh fish man-db prometheus prometheus-alertmanager systemd
  clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)
# Sources of libraries and their build tools (tools/portable.py); an old system and another processor to test wheels on.
wheels=(dpkg-dev make tcl debootstrap debian-archive-keyring qemu-user-static binutils)

case "${1:-}" in
  build) wanted=("${build[@]}") ;;
  python) wanted=("${python[@]}") ;;
  test) wanted=("${test[@]}") ;;
  wheels) wanted=("${wheels[@]}") ;;
  *) echo "usage: $0 build|python|test|wheels" >&2; exit 2 ;;
esac

if ! { command -v dpkg-query && command -v apt-get; } > /dev/null; then
  echo "setup: no apt here. Needed, by their Debian names: ${wanted[*]}" >&2
  exit 0
fi

# One query for all packages: removes those that dpkg reports as installed from the wanted ones.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' "${wanted[@]}" 2> /dev/null | awk '$2 == "ii" { print $1 }' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qx -- "$package" <<< "$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "setup: needs root or sudo to install: ${missing[*]}" >&2; exit 3; }
  as_root=(sudo)
fi

echo "setup: this machine lacks ${missing[*]}"
"${as_root[@]}" apt-get update -qq
# A library that this release does not carry is downloaded at configure time instead (cmake/deps.cmake).
available=()
for package in "${missing[@]}"; do
  if apt-cache show "$package" > /dev/null 2>&1; then
    available+=("$package")
  else
    echo "setup: $package is not in this system's package lists; going on without it" >&2
  fi
done
[ ${#available[@]} -gt 0 ] || exit 0
echo "setup: ${as_root[*]:+sudo }apt-get install ${available[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${available[@]}" > /dev/null
