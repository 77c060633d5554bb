"""Derivatives of the same robots by others and by Costate: microseconds a call, one thread, the least of many repeats.

  python3 -m venv build/peers    # crocoddyl 3.2.1 crashes with Pinocchio 4.1; the last two are of that time, too
  build/peers/bin/pip install crocoddyl==3.0.1 pin==3.4.0 "cmeel-urdfdom<5" cmeel-tinyxml2==10.0.0
  build/peers/bin/python tests/benchmark/peers.py ROBOT.xml[:contact body,contact body,…] …
  python3 -m venv build/mjx && build/mjx/bin/pip install mujoco-mjx==3.17.0
  build/mjx/bin/python tests/benchmark/peers.py ROBOT.xml …

smooth     pinocchio.computeABADerivatives: the dynamics and their derivatives without contacts, limits and friction
contact    calc and calcDiff of crocoddyl's DifferentialActionModelContactFwdDynamics, points held at the named bodies (3
           rows each; on robots without named feet, none), which is its model of a robot in contact
jacfwd     jax.jacfwd of one mjx.step by position, velocity and control (A and B), compiled, on the CPU, where MJX has the
           model, from benchmark_derivative's settled state; in double precision, as ours
single     the same in single precision, MJX's default
ours       benchmark_smooth's A and B of the model without its constraints, after mj_forward; with it
step       benchmark_derivative's A and B in contact with mj_forward: what jacfwd is to be compared with
Each column appears where its package is installed. Python's own part of a call is about a microsecond.
"""
import argparse
import os
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

try:
    import crocoddyl
    import numpy as np
    import pinocchio as pin
except ImportError:
    crocoddyl = None
try:
    import jax
    import mujoco
    from mujoco import mjx

    from mjx_motion import settled
except ImportError:
    jax = None


def microseconds(call, seconds=0.5, calls=20):
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return 1e6 * best


def pinocchio_and_crocoddyl(path, feet):
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

    return model.nv, smooth, microseconds(both)


def mjx_jacfwd(path, double):
    jax.config.update("jax_enable_x64", double)
    model, data = settled(path)
    mx, dx = mjx.put_model(model), mjx.put_data(model, data)
    nq, nx = model.nq, model.nq + model.nv

    def step(x):
        out = mjx.step(mx, dx.replace(qpos=x[:nq], qvel=x[nq:nx], ctrl=x[nx:]))
        return jax.numpy.concatenate([out.qpos, out.qvel])

    x = jax.numpy.concatenate([dx.qpos, dx.qvel, dx.ctrl])
    assert x.dtype == (jax.numpy.float64 if double else jax.numpy.float32)
    jacobian = jax.jit(jax.jacfwd(step)).lower(x).compile()
    return microseconds(lambda: jacobian(x).block_until_ready(), seconds=5, calls=5)


def ours(program, path):
    result = subprocess.run([program, path], capture_output=True, text=True)
    return result.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/bin", help="folder of Costate's benchmarks")
    parser.add_argument("robots", nargs="+")
    options = parser.parse_args()
    if not crocoddyl and not jax:
        raise SystemExit("neither crocoddyl nor mujoco-mjx is installed here; see the head of this file")

    titles = ["ours", "+forward"]
    if crocoddyl:
        titles += ["smooth", "ours/it", "both/it", "contact"]
    if jax:
        titles += ["step", "jacfwd", "it/step", "single", "it/step"]
    print(f"{'model':<24} {'nv':>4}" + "".join(f" {title:>9}" for title in titles))
    for argument in options.robots:
        path, _, feet = argument.partition(":")
        smooth = ours(os.path.join(options.programs, "benchmark_smooth"), path)
        if not smooth:
            print(f"{os.path.basename(path):<24} has no smooth part in closed form")
            continue
        _, nv, after, forward = smooth[-1].split()
        after, forward = float(after), float(forward)
        numbers = [after, after + forward]
        if crocoddyl:
            _, peer, contact = pinocchio_and_crocoddyl(path, feet)
            numbers += [peer, after / peer, (after + forward) / peer, contact]
        if jax:
            # model nv ncon nefc step transFD level3 level2 best …: "best" in steps
            line = [l for l in ours(os.path.join(options.programs, "benchmark_derivative"), path) if l.startswith(os.path.basename(path)[:24])]
            fields = line[0].split()
            step = float(fields[4]) * float(fields[8])
            numbers += [step]
            try:
                for double in (True, False):
                    jacfwd = mjx_jacfwd(path, double)
                    numbers += [jacfwd, jacfwd / step]
            except NotImplementedError as error:
                print(f"{os.path.basename(path)}: MJX: {error}")
        print(f"{os.path.basename(path):<24} {nv:>4}" + "".join(f" {number:>9.2f}" for number in numbers) + f"   {feet}", flush=True)


if __name__ == "__main__":
    main()
