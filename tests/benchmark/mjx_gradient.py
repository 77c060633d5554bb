"""The gradient of a rollout's loss by all controls through MJX, reverse mode of JAX, beside its own rollout; one row a model.

  python3 -m venv build/mjx && build/mjx/bin/pip install mujoco-mjx jax
  build/mjx/bin/python tests/benchmark/mjx_gradient.py MODEL.xml:KEYFRAME … [--steps 100] [--iterations 1]

The loss is that of benchmark_gradient: half the square of the last velocity and 0.05 times the squares of all controls, which are
those of the keyframe and 0.05 sin(0.1 t + i); both print its value and the gradient's norm, to be compared. Milliseconds of
processor time, the least of five calls after compilation, which is shown apart. MJX has reverse mode only where its constraint
solver runs one iteration: with constraints, what is differentiated is then not the engine's step, and the loss shows it. Double
precision on the processor. Without mujoco-mjx the program says so and ends with 77, which test drivers count as skipped.
"""
import argparse
import sys
import time

try:
    import jax
    import mujoco
    import numpy as np

    from mjx_motion import effort, on_device, waved_controls
except ImportError as missing:
    print(f"skipped: {missing} (pip install mujoco-mjx jax)")
    sys.exit(77)

REPEATS = 5


def timed(call, argument):
    start = time.process_time()
    result = jax.block_until_ready(call(argument))
    first, best = time.process_time() - start, float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        result = jax.block_until_ready(call(argument))
        best = min(best, time.process_time() - start)
    return result, best, first - best


def row(path, key, steps, iterations):
    model = mujoco.MjModel.from_xml_path(path)
    model.opt.iterations = iterations
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key(key).id)
    device_model, start = on_device(model, data)
    controls = waved_controls(data, steps)

    def loss(controls):
        return effort(device_model, start, controls)

    value, rollout, compiling = timed(jax.jit(loss), controls)
    (_, slope), gradient, more = timed(jax.jit(jax.value_and_grad(loss)), controls)
    name = path.split("/")[-1].removesuffix(".xml")
    print(
        f"{name:<12} {steps:>6} {1e3 * rollout:>11.3f} {1e3 * gradient:>11.3f} {gradient / rollout:>9.2f} "
        f"{compiling + more:>10.1f}  {value:<14.8g} {np.linalg.norm(slope):.8g}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.xml:KEYFRAME")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=1, help="of the constraint solver; more than one has no reverse mode")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    print(f"MuJoCo {mujoco.__version__}, JAX {jax.__version__} on {jax.devices()[0].platform}, solver iterations {arguments.iterations}")
    print(f"{'model':<12} {'T':>6} {'rollout ms':>11} {'gradient ms':>11} {'ratio':>9} {'compile s':>10}  {'loss':<14} |gradient by controls|")
    for model in arguments.models:
        path, _, key = model.rpartition(":")
        try:
            row(path, key, arguments.steps, arguments.iterations)
        except (ValueError, TypeError, NotImplementedError, KeyError) as error:
            print(f"{model}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
