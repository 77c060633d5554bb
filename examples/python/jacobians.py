"""The Jacobians of one mj_step, from Python: `python3 jacobians.py libcostate.so MODEL.xml`."""
import ctypes
import sys

import mujoco
import numpy as np

library, path = sys.argv[1:]
costate = ctypes.CDLL(library)
model = mujoco.MjModel.from_xml_path(path)
data = mujoco.MjData(model)

n = 2 * model.nv + model.na
A, B = np.zeros((n, n)), np.zeros((n, model.nu))
error = ctypes.create_string_buffer(500)
address = ctypes.c_void_p
if costate.costate_transition(address(model._address), address(data._address), 0, address(A.ctypes.data),
                              address(B.ctypes.data), None, None, error, len(error)):
    sys.exit(error.value.decode())
print(f"A is {A.shape}, spectral radius {abs(np.linalg.eigvals(A)).max():.4f}; B is {B.shape}, largest entry {abs(B).max():.4g}")
