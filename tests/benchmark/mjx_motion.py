"""What the programs that measure MJX share: its models at rest, its steps, the loss of benchmark_gradient."""
import jax
import mujoco
import numpy as np
from mujoco import mjx

SETTLE = 0.5  # [s] of simulation before measuring, as benchmark_derivative and benchmark_batch


def settled(path):
    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    while data.time < SETTLE:
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    return model, data


def on_device(model, data):
    """Both, with integers that a step widens wide from the start."""
    mx, dx = mjx.put_model(model), mjx.put_data(model, data)
    after = jax.eval_shape(lambda state: mjx.step(mx, state), dx)
    return mx, jax.tree.map(lambda value, other: value.astype(other.dtype), dx, after)


def waved_controls(data, steps):
    wave = 0.05 * np.sin(0.1 * np.arange(steps)[:, None] + np.arange(data.ctrl.size)[None, :])
    return jax.numpy.array(data.ctrl + wave)


def effort(mx, start, controls):
    """Half the square of the last velocity and 0.05 times the squares of all controls."""

    def step(state, control):
        return mjx.step(mx, state.replace(ctrl=control)), None

    end, _ = jax.lax.scan(step, start, controls)
    return 0.5 * jax.numpy.sum(end.qvel**2) + 0.05 * jax.numpy.sum(controls**2)
