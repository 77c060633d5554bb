"""Plays an optimized run in Python's viewer: `python3 play.py libcostate.so play.xml`, without a display `… --headless`.

play.xml comes from `costate replay RUN --export play.xml`.
"""
import sys

import mujoco

mujoco.mj_loadPluginLibrary(sys.argv[1])  # before the model that names the plugin
model = mujoco.MjModel.from_xml_path(sys.argv[2])
data = mujoco.MjData(model)
if "--headless" in sys.argv:
    while data.time < 1:
        mujoco.mj_step(model, data)  # nothing else: the plugin sets the controls
    print(f"after {data.time:.2f} s: qpos {data.qpos.round(3)}, ctrl {data.ctrl.round(3)}")
else:
    from mujoco import viewer
    viewer.launch(model, data)
