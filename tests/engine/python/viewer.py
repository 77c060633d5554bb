"""An optimized run in MuJoCo's own viewer (the program simulate, as the Python bindings start it), on a display of its own.

  python3 viewer.py LIBRARY PROGRAM SOURCE PACKAGES

Arguments as of plugins.py; PACKAGES holds glfw as well. Skipped (exit status 77) where the bindings, glfw or Xvfb are missing.
"""
import csv
import os
import pathlib
import shutil
import site
import subprocess
import sys
import tempfile
import threading
import time

LIBRARY, PROGRAM, SOURCE, PACKAGES = sys.argv[1:5]
INSTALL = "python3 -m pip install --target build/mujoco-python mujoco-core==4.0.1 glfw; apt-get install xvfb"
site.addsitedir(PACKAGES)
try:
    import glfw
    import mujoco
    import numpy as np
except ImportError:
    print("SKIPPED: MuJoCo's bindings or glfw are not installed;", INSTALL)
    sys.exit(77)
if mujoco.__version__ != "4.0.1" or not shutil.which("Xvfb"):
    print("SKIPPED: these are not the bindings of MuJoCo 4.0.1, or there is no Xvfb;", INSTALL)
    sys.exit(77)


def watch(data, run, knot_time):
    """While the viewer simulates `data`: its positions at each knot that is met are those of the run, bit for bit."""
    nq, seen, moved = data.qpos.size, set(), 0.0
    end = time.monotonic() + 30
    while len(seen) < 20 and time.monotonic() < end:
        before, qpos, after = data.time, data.qpos.copy(), data.time
        knot = round(after / knot_time)
        if before != after or abs(after - knot * knot_time) > 1e-9 or not 0 < knot < len(run):
            continue
        differs = not np.array_equal(qpos, run[knot, :nq])
        if differs:
            time.sleep(0.002)  # a step writes positions before its time: read between the two they are the next knot's
            if data.time != after:
                continue
        seen.add(knot)
        if differs:
            print(f"knot {knot}: {qpos} in the viewer, {run[knot, :nq]} in the run", flush=True)
            os._exit(1)
        moved = max(moved, abs(qpos - run[0, :nq]).max())
    print(f"{len(seen)} knots of {len(run)} met, each as in the run; moved by up to {moved:.2f}", flush=True)
    os._exit(0 if len(seen) >= 20 and moved > 0.1 else 1)


def play(file, run_folder):
    import mujoco.viewer

    mujoco.mj_loadPluginLibrary(LIBRARY)
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    with open(run_folder / "trajectory.csv") as table:
        rows = list(csv.DictReader(table))
    columns = [name for name in rows[0] if name.startswith("qpos")]
    run = np.array([[float(row[name]) for name in columns] for row in rows])
    times = [float(value) for name, value in rows[1].items() if name.startswith("time")]
    threading.Thread(target=watch, args=(data, run, times[0])).start()
    mujoco.viewer.launch(model, data)


def main():
    if len(sys.argv) > 5:
        return play(sys.argv[5], pathlib.Path(sys.argv[6]))
    with tempfile.TemporaryDirectory() as folder:
        run, file = pathlib.Path(folder) / "run", pathlib.Path(folder) / "play.xml"
        task = pathlib.Path(SOURCE) / "models/cartpole/swing_up.xml"
        subprocess.run([PROGRAM, "optimize", str(task), "--out", str(run), "--no-plots", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PROGRAM, "replay", str(run), "--export", str(file)], check=True, stdout=subprocess.DEVNULL)
        read, write = os.pipe()
        display = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24"], pass_fds=[write],
                                   stderr=subprocess.DEVNULL)
        try:
            number = os.read(read, 16).decode().strip()
            env = dict(os.environ, DISPLAY=":" + number, LIBGL_ALWAYS_SOFTWARE="1")
            return subprocess.run([sys.executable, *sys.argv, str(file), str(run)], env=env, timeout=60).returncode
        finally:
            display.terminate()
            display.wait()


sys.exit(main())
