"""Steps, A and B, and gradients through 100 steps that MJX does a second, of many states at once; one row a batch.

  python3 -m venv build/mjx && build/mjx/bin/pip install mujoco-mjx==3.17.0 "jax[cuda13]"
  build/mjx/bin/python tests/benchmark/mjx_batch.py MODEL.xml … [--batch 1024 8192] [--what steps jacobians gradients]

On the first device that JAX has, in single precision, its default; benchmark_batch prints the same of Costate. States are
the settled one of benchmark_batch with 1e-3 of noise on positions' and velocities' slots. A and B: jax.jacfwd of one mjx.step by
position, velocity and control, under jax.vmap. Gradients: reverse mode by all controls through 100 steps with a constraint
solver of one iteration, the only one that has it: with constraints it is then not the engine's step that is differentiated.
The least time of five calls; compilation, apart, is printed behind. Several may run at once, to compile side by side: they
measure one after another.
"""
import argparse
import fcntl
import os
import sys
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import mujoco
    import numpy as np
    from mujoco import mjx

    from mjx_motion import effort, on_device, settled, waved_controls
except ImportError as missing:
    print(f"skipped: {missing} (pip install mujoco-mjx jax)")
    sys.exit(77)

LENGTH = 100
REPEATS = 5


def function(what, model, data):
    """What is measured, a state at which, and how much of that is positions and velocities."""
    if what == "gradients":
        model.opt.iterations = 1
    mx, dx = on_device(model, data)
    nq, nx = model.nq, model.nq + model.nv
    controls = waved_controls(data, LENGTH)

    def step(x):
        out = mjx.step(mx, dx.replace(qpos=x[:nq], qvel=x[nq:nx], ctrl=x[nx:]))
        return jax.numpy.concatenate([out.qpos, out.qvel])

    def gradient(x):
        start = dx.replace(qpos=x[:nq], qvel=x[nq:nx])
        return jax.value_and_grad(lambda U: effort(mx, start, U))(controls)

    x = np.concatenate([data.qpos, data.qvel, data.ctrl]).astype(np.float32)
    return {"steps": step, "jacobians": jax.jacfwd(step), "gradients": gradient}[what], x, nx


def row(path, what, batch):
    model, data = settled(path)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    call, x, nx = function(what, model, data)
    noise = np.zeros((batch, x.size), np.float32)
    noise[:, :nx] = 1e-3 * np.random.default_rng(1).standard_normal((batch, nx))
    states = jax.device_put(x + noise)
    start = time.perf_counter()
    compiled = jax.jit(jax.vmap(call)).lower(states).compile()
    compiling = time.perf_counter() - start
    best = float("inf")
    with open(os.path.join(tempfile.gettempdir(), "costate_mjx_batch"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            result = jax.block_until_ready(compiled(states))
            best = min(best, time.perf_counter() - start)
    finite = all(bool(jax.numpy.isfinite(leaf).all()) for leaf in jax.tree.leaves(result))
    print(
        f"{path.split('/')[-1][:20]:<20} {model.nv:>4} {what:<10} {batch:>8} {1e3 * best:>11.3f} {batch / best:>12.0f} "
        f"{compiling:>10.1f}  {'' if finite else 'NOT FINITE'}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.xml")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--what", nargs="+", default=["steps", "jacobians", "gradients"])
    arguments = parser.parse_args()
    print(f"MuJoCo {mujoco.__version__}, JAX {jax.__version__} on {jax.devices()[0].device_kind}, single precision")
    print(f"{'model':<20} {'nv':>4} {'what':<10} {'batch':>8} {'ms':>11} {'a second':>12} {'compile s':>10}")
    for path in arguments.models:
        for what in arguments.what:
            for batch in arguments.batch:
                try:
                    row(path, what, batch)
                except (ValueError, TypeError, NotImplementedError, KeyError) as error:
                    print(f"{path} {what} {batch}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
                except jax.errors.JaxRuntimeError as error:
                    print(f"{path} {what} {batch}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
