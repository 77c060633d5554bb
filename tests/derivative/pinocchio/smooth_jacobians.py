"""Costate's derivatives of the smooth dynamics against Pinocchio's computeABADerivatives on the same robots.

  python3 smooth_jacobians.py PROGRAM PACKAGES [--plant PROGRAM] MODEL.xml …

PROGRAM prints a robot's numbers, states and Costate's Jacobians; Pinocchio's model is built from those numbers alone.
PACKAGES is a folder that may hold Pinocchio (pip install --target); where there is none the comparison is skipped (exit
status 77). The second program makes one formula wrong by one per cent, each of PLANTS in turn: the comparison must notice.
"""
import argparse
import json
import os
import site
import subprocess
import sys

STATES = 8
GOAL = 1e-9  # of a block's largest entry
INSTALL = "python3 -m pip install --target build/pinocchio pin==4.0.0"

# every formula that trees without forces other than gravity and applied ones go through
PLANTS = [
    "rne: axis rate",
    "rne: axis acceleration",
    "rne: axis rate twice",
    "rne: group velocity",
    "rne: force",
    "rne: coriolis operator",
    "rne: momentum",
    "rne: z",
    "rne: w",
    "rne: y by q",
    "rne: y by v",
]

try:
    site.addsitedir(sys.argv[2] if len(sys.argv) > 2 else "")
    import numpy as np
    import pinocchio as pin
except ImportError:
    print("SKIPPED: Pinocchio is not installed;", INSTALL)
    sys.exit(77)


def rotation(quat):
    return pin.Quaternion(quat[0], quat[1], quat[2], quat[3]).toRotationMatrix()


def build(robot):
    """Pinocchio's model, and for each of its joints that of the engine."""
    model = pin.Model()
    model.gravity.linear = np.array(robot["gravity"])
    joints, armatures = [], []
    frames = [(0, pin.SE3.Identity())]  # of each body: the joint that moves it, and where the body is in its frame
    for number, body in enumerate(robot["bodies"], 1):
        parent, placement = frames[body["parent"]]
        placement = placement * pin.SE3(rotation(body["quat"]), np.array(body["pos"]))
        for joint in body["joints"]:
            axis, anchor = np.array(joint["axis"]), pin.SE3(np.eye(3), np.array(joint["pos"]))
            if joint["type"] == "free":
                kind, placement, anchor = pin.JointModelFreeFlyer(), pin.SE3.Identity(), pin.SE3.Identity()
            elif joint["type"] == "ball":
                kind = pin.JointModelSpherical()
            elif joint["type"] == "slide":
                kind = pin.JointModelPrismaticUnaligned(axis)
            else:
                kind = pin.JointModelRevoluteUnaligned(axis)
            parent = model.addJoint(parent, kind, placement * anchor, f"{number}.{len(joints)}")
            placement = anchor.inverse()
            joints.append((model.joints[parent], joint))
            armatures += [joint["armature"]] * model.joints[parent].nv
        frames.append((parent, placement))
        axes = rotation(body["iquat"])
        inertia = pin.Inertia(body["mass"], np.array(body["ipos"]), axes @ np.diag(body["inertia"]) @ axes.T)
        model.appendBodyToJoint(parent, inertia, placement)
    model.armature = np.array(armatures)
    return model, joints


def skew(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def pinocchio_jacobians(model, joints, point):
    """qacc and its Jacobians by q, v and force, in the engine's coordinates.

    They differ at a free joint: the engine's linear velocity, acceleration and force are those of the body's origin along the
    axes of the world, Pinocchio's along those of the body, where the acceleration is the spatial one, Rᵀ v' − ω × Rᵀ v.
    """
    qpos, qvel, force = (np.array(point[key]) for key in ("qpos", "qvel", "force"))
    q, v, tau = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
    V = np.eye(model.nv)  # dv = V dqvel + Vq dq, likewise the force; dq' = V dq
    Vq, Fq = np.zeros((model.nv, model.nv)), np.zeros((model.nv, model.nv))
    free = []
    for joint, engine in joints:
        a, i, n = engine["q"], joint.idx_q, joint.nv
        at, to = slice(engine["v"], engine["v"] + n), slice(joint.idx_v, joint.idx_v + n)
        assert at == to
        v[to], tau[to] = qvel[at], force[at]
        if engine["type"] in ("hinge", "slide"):
            q[i] = qpos[a] - engine["qpos0"]
            continue
        quat = a + (3 if engine["type"] == "free" else 0)
        q[i : i + quat - a] = qpos[a:quat]
        q[i + quat - a : i + quat - a + 4] = np.roll(qpos[quat : quat + 4], -1)
        if engine["type"] == "free":
            line, turn = slice(to.start, to.start + 3), slice(to.start + 3, to.stop)
            R = rotation(qpos[quat : quat + 4])
            v[line], tau[line], V[line, line] = R.T @ v[line], R.T @ tau[line], R.T
            Vq[line, turn], Fq[line, turn] = skew(v[line]), skew(tau[line])
            free.append((line, turn, R))

    data = model.createData()
    pin.computeABADerivatives(model, data, q, v, tau)
    a, by_q, by_v, by_force = data.ddq.copy(), data.ddq_dq, data.ddq_dv, data.Minv
    by_force = np.triu(by_force) + np.triu(by_force, 1).T
    by_q = by_q @ V + by_v @ Vq + by_force @ Fq
    by_v, by_force = by_v @ V, by_force @ V
    for line, turn, R in free:
        # qacc = R (a + ω × v)
        inner, w = a[line] + np.cross(v[turn], v[line]), v[turn]
        for matrix, dv in ((by_q, Vq), (by_v, V), (by_force, None)):
            if dv is not None:
                matrix[line] += skew(w) @ dv[line]
            if matrix is by_v:
                matrix[line, turn] -= skew(v[line])
            matrix[line] = R @ matrix[line]
        by_q[line, turn] -= R @ skew(inner)
        a[line] = R @ inner
    return {"qacc": a, "by q": by_q, "by v": by_v, "by force": by_force}


def compare(program, path, plant=None):
    """The largest difference of each block over its largest entry."""
    command = [program, path, str(STATES)] + ([plant] if plant else [])
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    model, joints = build(out["robot"])
    errors = {}
    for point in out["points"]:
        for key, expected in pinocchio_jacobians(model, joints, point).items():
            error = np.abs(np.array(point[key]) - expected).max() / np.abs(expected).max()
            errors[key] = max(errors.get(key, 0), error if np.isfinite(error) else np.inf)
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("packages")
    parser.add_argument("--plant", metavar="PROGRAM")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    failed = False
    print(f"Pinocchio {pin.__version__}")
    for path in options.models:
        errors = compare(options.program, path)
        failed |= max(errors.values()) > GOAL
        print(os.path.basename(path), ", ".join(f"{key} {error:.1e}" for key, error in errors.items()))
    for plant in PLANTS if options.plant else []:
        worst = max(max(compare(options.plant, path, plant).values()) for path in options.models)
        failed |= worst <= GOAL
        print(f"one per cent in '{plant}': {worst:.1e}{'' if worst > GOAL else ' goes unnoticed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
