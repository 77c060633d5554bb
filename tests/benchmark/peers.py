"""Derivatives of the same robots by Pinocchio and Crocoddyl: microseconds a call, one thread, the least of many repeats.

  python3 -m venv build/peers && build/peers/bin/pip install crocoddyl==3.2.1
  build/peers/bin/python tests/benchmark/peers.py ROBOT.xml[:contact body,contact body,…] …

smooth    pinocchio.computeABADerivatives: what the smooth part of A and B costs there
contact   calc and calcDiff of crocoddyl's DifferentialActionModelContactFwdDynamics, points held at the named bodies (3
          rows each; on robots without named feet, none), which is its model of a robot in contact
benchmark_derivative gives ours in the same units on the same machine. Python's own part of a call is about a microsecond.
"""
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import crocoddyl  # noqa: E402
import numpy as np  # noqa: E402
import pinocchio as pin  # noqa: E402


def microseconds(call, seconds=0.5):
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(20):
            call()
        best = min(best, (time.perf_counter() - start) / 20)
    return 1e6 * best


def row(argument):
    path, _, feet = argument.partition(":")
    model = pin.buildModelFromMJCF(path)
    data = model.createData()
    q, v = pin.neutral(model), np.zeros(model.nv)
    a = np.zeros(model.nv)
    smooth = microseconds(lambda: pin.computeABADerivatives(model, data, q, v, a))

    state = crocoddyl.StateMultibody(model)
    floating = model.joints[1].nv == 6
    actuation = (crocoddyl.ActuationModelFloatingBase if floating else crocoddyl.ActuationModelFull)(state)
    contacts = crocoddyl.ContactModelMultiple(state, actuation.nu)
    for name in filter(None, feet.split(",")):
        frame = model.getFrameId(name)
        if frame >= model.nframes:
            raise SystemExit(f"{path}: there is no body '{name}'; there are {[f.name for f in model.frames]}")
        contacts.addContact(
            name,
            crocoddyl.ContactModel3D(state, frame, np.zeros(3), pin.LOCAL_WORLD_ALIGNED, actuation.nu, np.zeros(2)),
        )
    costs = crocoddyl.CostModelSum(state, actuation.nu)
    action = crocoddyl.DifferentialActionModelContactFwdDynamics(state, actuation, contacts, costs, 0.0, True)
    action_data = action.createData()
    x, u = np.concatenate([q, v]), np.zeros(actuation.nu)

    def both():
        action.calc(action_data, x, u)
        action.calcDiff(action_data, x, u)

    print(f"{os.path.basename(path):<24} {model.nv:>4} {smooth:>9.2f} {microseconds(both):>9.2f}   {feet}")


print(f"{'model':<24} {'nv':>4} {'smooth':>9} {'contact':>9}   points")
for argument in sys.argv[1:]:
    row(argument)
