# What tests/run.sh and examples/run.sh share: the Debian packages and the build. Source it, then call
#   costate_packages        installs what is missing when it may, otherwise prints the apt line and ends the script
#   costate_build [target]  configures and builds into build/ (all by default); MUJOCO_DIR=<folder> is passed on

COSTATE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
COSTATE_BUILD=${COSTATE_BUILD:-$COSTATE_ROOT/build}

COSTATE_PACKAGES=(
  # tools
  g++ cmake ninja-build ccache python3 python3-pip ca-certificates
  # libraries
  libeigen3-dev libfmt-dev libcli11-dev libpugixml-dev nlohmann-json3-dev libpng-dev
  # viewer, and software rendering without a display
  libglfw3-dev libegl-dev libegl1 libgl1-mesa-dri libosmesa6
  # plots
  gnuplot-nox
  # tests
  libgtest-dev xvfb xdotool imagemagick locales
)

costate_packages() {
  # elsewhere than on Debian CMake names what is missing
  command -v dpkg-query >/dev/null 2>&1 || return 0
  local missing=() package
  for package in "${COSTATE_PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing ${#missing[@]} packages: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 </dev/null; then
      tail -n 20 "$log"
      echo "apt-get failed; its whole output is in $log"
      exit 1
    fi
    rm -f "$log"
    return 0
  fi
  echo "These packages are missing. As root:"
  echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  exit 1
}

costate_build() {
  local options=(-S "$COSTATE_ROOT" -B "$COSTATE_BUILD" -G Ninja)
  [ -z "${MUJOCO_DIR:-}" ] || options+=("-DMUJOCO_DIR=$MUJOCO_DIR")

  # the same cache serves every checkout of these sources
  export CCACHE_BASEDIR=$COSTATE_ROOT CCACHE_NOHASHDIR=1
  cmake "${options[@]}" && cmake --build "$COSTATE_BUILD" ${1:+--target "$@"}
}
