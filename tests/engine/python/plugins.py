"""The plugins and the C interface inside MuJoCo's own Python bindings.

  python3 plugins.py LIBRARY PROGRAM SOURCE PACKAGES

LIBRARY is libcostate.so, PROGRAM the program costate, SOURCE the repository, PACKAGES a folder that may hold the bindings
(pip install --target). Where there are none the test is skipped (exit status 77).
"""
import copy
import csv
import ctypes
import os
import pathlib
import site
import subprocess
import sys
import tempfile
import threading
import time

LIBRARY, PROGRAM, SOURCE, PACKAGES = sys.argv[1:5]
INSTALL = "python3 -m pip install --target build/mujoco-python mujoco-core==4.0.1"
site.addsitedir(PACKAGES)
try:
    import mujoco
    import numpy as np
except ImportError:
    print("SKIPPED: MuJoCo's bindings are not installed;", INSTALL)
    sys.exit(77)
if mujoco.__version__ != "4.0.1":
    print("SKIPPED: these are the bindings of MuJoCo", mujoco.__version__, "not 4.0.1;", INSTALL)
    sys.exit(77)

SCENE = """<mujoco><option timestep="0.001" integrator="implicitfast"/>
  <extension><plugin plugin="costate.linearization"/>
    <plugin plugin="costate.smooth_contact"><instance name="touch"><config key="geom1" value="floor"/>
      <config key="geom2" value="ball box"/><config key="stiffness" value="STIFFNESS"/></instance></plugin></extension>
  <worldbody><geom name="floor" type="plane" size="1 1 1" contype="0" conaffinity="0"/>
    <body pos="0 0 .099"><freejoint/><geom name="ball" size=".1"/></body>
    <body pos=".5 0 .15" euler="10 20 0"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/>
      <body pos="0 0 .1"><joint name="arm" axis="0 1 0" damping=".1"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 .3"/></body></body>
  </worldbody>
  <actuator><position name="arm" joint="arm" kp="5"/></actuator>
  <sensor><plugin name="lin" plugin="costate.linearization"><config key="output" value="A B level"/></plugin></sensor></mujoco>"""

# a model that uses no plugin: its motion, as bytes
PLAIN = """
import sys, mujoco
if len(sys.argv) > 2: mujoco.mj_loadPluginLibrary(sys.argv[2])
model = mujoco.MjModel.from_xml_path(sys.argv[1])
data = mujoco.MjData(model)
mujoco.mj_resetDataKeyframe(model, data, 0)
for _ in range(500): mujoco.mj_step(model, data)
print((data.qpos.tobytes() + data.qvel.tobytes() + data.qacc.tobytes()).hex())
"""


def transition(model, data, level):
    """costate_transition through ctypes."""
    n = 2 * model.nv + model.na
    A, B = np.zeros((n, n)), np.zeros((n, model.nu))
    error = ctypes.create_string_buffer(500)
    p = ctypes.c_void_p
    failed = ctypes.CDLL(LIBRARY).costate_transition(p(model._address), p(data._address), level, p(A.ctypes.data),
                                                     p(B.ctypes.data), None, None, error, 500)
    assert not failed, error.value.decode()
    return A, B


def difference(a, b):
    return abs(a - b).max() / max(abs(b).max(), 1e-300)


def integration_state(model, data):
    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.zeros(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, state, spec)
    return state


def run(*command):
    environment = dict(os.environ, PYTHONPATH=PACKAGES + os.pathsep + os.environ.get("PYTHONPATH", ""))
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def check_unused_plugins_change_nothing():
    for name in ("humanoid", "quadruped"):
        model = f"{SOURCE}/models/{name}/{name}.xml"
        assert run(sys.executable, "-c", PLAIN, model) == run(sys.executable, "-c", PLAIN, model, LIBRARY), name


def check_derivatives():
    model = mujoco.MjModel.from_xml_string(SCENE.replace("STIFFNESS", "2e4"))
    data = mujoco.MjData(model)
    data.ctrl[0] = 0.5
    for steps in (1, 60):
        for _ in range(steps):
            mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)
        n = 2 * model.nv + model.na
        A, B = np.zeros((n, n)), np.zeros((n, model.nu))
        mujoco.mjd_transitionFD(model, data, 1e-6, True, A, B, None, None)
        for level in (0, 1, 2, 3):
            ours = transition(model, data, level)
            assert difference(ours[0], A) < 1e-6 and difference(ours[1], B) < 1e-6, (steps, level)
        ours = transition(model, data, 1)
        shown = data.sensor("lin").data
        assert difference(shown[:n * n].reshape(n, n), ours[0]) < 1e-12
        assert difference(shown[n * n:-1].reshape(n, model.nu), ours[1]) < 1e-12
        assert shown[-1] == 1


def check_copies_and_threads():
    model = mujoco.MjModel.from_xml_string(SCENE.replace("STIFFNESS", "2e4"))
    data = mujoco.MjData(model)
    for _ in range(100):
        mujoco.mj_step(model, data)
    copied, restored = copy.copy(data), mujoco.MjData(model)
    mujoco.mj_setState(model, restored, integration_state(model, data), mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_step(model, data, nstep=100)
    expected = integration_state(model, data)
    mujoco.mj_resetData(model, data)
    del data
    threads = [threading.Thread(target=mujoco.mj_step, args=(model, d), kwargs={"nstep": 100}) for d in (copied, restored)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for d in (copied, restored):
        assert (integration_state(model, d) == expected).all()


def check_policy(folder):
    saved, play = folder / "run", folder / "play.xml"
    run(PROGRAM, "optimize", f"{SOURCE}/models/cartpole/swing_up.xml", "--iterations", "60", "--quiet", "--no-plots", "--out", saved)
    run(PROGRAM, "replay", saved, "--export", play)
    rows = list(csv.reader(open(saved / "trajectory.csv")))
    columns = [i for i, name in enumerate(rows[0]) if name.startswith(("qpos", "qvel", "act"))]
    X = np.array([[float(row[i]) for i in columns] for row in rows[1:]])

    def end_error(file, push):
        model = mujoco.MjModel.from_xml_path(str(file))
        data = mujoco.MjData(model)
        substeps = round(float(rows[2][0]) / model.opt.timestep)
        worst = 0
        for t in range(len(X)):
            x = np.concatenate([data.qpos, data.qvel, data.act])
            worst = max(worst, abs(x - X[t]).max())
            data.qfrc_applied[:] = push if t == len(X) // 2 else 0
            if t + 1 < len(X):
                mujoco.mj_step(model, data, nstep=substeps)
        return worst, abs(x - X[-1]).max()

    blind = folder / "blind.xml"
    run(PROGRAM, "replay", saved, "--export", blind, "--no-feedback")
    assert end_error(play, 0)[0] < 1e-10 and end_error(blind, 0)[0] < 1e-10
    with_feedback, without = end_error(play, 0.1)[1], end_error(blind, 0.1)[1]
    print(f"policy: pushed, misses the end by {with_feedback:.3g} with feedback, {without:.3g} without")
    assert with_feedback < 0.1 * without
    print(run(sys.executable, f"{SOURCE}/examples/python/play.py", LIBRARY, play, "--headless").strip())
    print(run(sys.executable, f"{SOURCE}/examples/python/jacobians.py", LIBRARY, f"{SOURCE}/models/cartpole/cartpole.xml").strip())


def check_mpc(folder):
    """An exported task plans in a host that only steps, and follows the ball that the host moves."""
    live = folder / "live.xml"
    run(PROGRAM, "mpc", f"{SOURCE}/models/arm/reach.xml", "--export", live)
    model = mujoco.MjModel.from_xml_path(str(live))
    data = mujoco.MjData(model)
    goal = model.body("goal of site tip").mocapid[0]
    for move in ((0, 0, 0), (-0.1, 0, 0.15)):
        data.mocap_pos[goal] += move
        mujoco.mj_step(model, data)  # the first plan takes its time
        begun = time.time() - data.time
        while data.time < 2 or (any(move) and data.time < 4):
            mujoco.mj_step(model, data)
            time.sleep(max(0, begun + data.time - time.time()))  # plans are made on a thread, in real time
        mujoco.mj_forward(model, data)
        miss = np.linalg.norm(data.site("tip").xpos - data.mocap_pos[goal])
        print(f"mpc: {1e3 * miss:.2f} mm off its goal")
        assert miss < 0.1  # plans of a second on a machine of any speed; the arm reaches 0.9 m


def check_errors():
    for wrong, text in ((SCENE.replace("STIFFNESS", "-1"), "attribute stiffness: it is -1, expected a number above 0"),
                        (SCENE.replace("STIFFNESS", "1").replace("A B level", "A.xx"), "attribute output: there is no 'A.xx'")):
        try:
            mujoco.MjModel.from_xml_string(wrong)
        except ValueError as error:
            assert text in str(error), error
        else:
            raise AssertionError("accepted: " + text)


def check_python_callbacks():
    """The bindings end the process where a callback is called with data that are not theirs: refused before."""
    model = mujoco.MjModel.from_xml_string(SCENE.replace("STIFFNESS", "2e4"))
    data = mujoco.MjData(model)
    expected = transition(model, data, 0)
    mujoco.mj_forward(model, data)
    assert data.sensor("lin").data[-1] == 1

    def control(m, d):
        d.ctrl[0] = 0.1

    mujoco.set_mjcb_control(control)
    for level in range(4):
        try:
            transition(model, data, level)
        except AssertionError as error:
            assert "mjcb_control is a Python function" in str(error), error
        else:
            raise RuntimeError("a step with a Python callback was taken")
    mujoco.mj_step(model, data)
    assert (data.sensor("lin").data == 0).all() and data.ctrl[0] == 0.1
    mujoco.MjData(model)
    mujoco.set_mjcb_control(None)
    mujoco.mj_resetData(model, data)
    assert (transition(model, data, 0)[0] == expected[0]).all()


mujoco.mj_loadPluginLibrary(LIBRARY)
check_unused_plugins_change_nothing()
check_derivatives()
check_copies_and_threads()
check_errors()
check_python_callbacks()
with tempfile.TemporaryDirectory() as temporary:
    check_policy(pathlib.Path(temporary))
    check_mpc(pathlib.Path(temporary))
print("passed")
