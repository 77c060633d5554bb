#!/usr/bin/env python3
"""Writes each motion.csv from its closed form; no simulator is asked. One row a knot."""
import math
import pathlib

FOLDER = pathlib.Path(__file__).parent
G = 9.81


def write(name, columns, rows):
    with open(FOLDER / name / "motion.csv", "w") as file:
        file.write("time (s)," + ",".join(columns) + "\n")
        for row in rows:
            file.write(",".join(f"{value:.17g}" for value in row) + "\n")


def times(dt, knots):
    return [dt * i for i in range(knots + 1)]


def moon(t, g=1.62):
    return -g * t * t / 2


def drag(t, density=1.2, radius=0.05, mass=0.05, vx=8.0, vz=7.0):
    k = 0.5 * density * 2.4 * radius**2 / mass
    terminal = math.sqrt(G / k)
    start = math.atan(vz / terminal)
    apex = start * terminal / G
    top = -math.log(math.cos(start)) / k
    if t < apex:
        z = math.log(math.cos(start - G * t / terminal)) / k + top
    else:
        z = top - math.log(math.cosh(G * (t - apex) / terminal)) / k
    return math.log(1 + k * vx * t) / k, z


def jacobi(u, k):
    """sn, cn, dn by the arithmetic-geometric mean (Abramowitz & Stegun 16.4)."""
    a, c = [1.0], [k]
    b = math.sqrt(1 - k * k)
    while c[-1] > 1e-15:
        a, b, c = a + [(a[-1] + b) / 2], math.sqrt(a[-1] * b), c + [(a[-1] - b) / 2]
    phi = 2 ** (len(a) - 1) * a[-1] * u
    for i in range(len(a) - 1, 0, -1):
        phi = (phi + math.asin(c[i] / a[i] * math.sin(phi))) / 2
    sn = math.sin(phi)
    return sn, math.cos(phi), math.sqrt(1 - (k * sn) ** 2)


def pendulum(t, length=0.8, raised=1.0):
    k = math.sin(raised / 2)
    sn, cn, dn = jacobi(math.sqrt(G / length) * t, k)
    return 2 * math.asin(k * cn / dn)


def spring(t, mass=0.5, stiffness=20.0, damping=0.4, x0=0.2):
    d = damping / (2 * mass)
    w = math.sqrt(stiffness / mass - d * d)
    return x0 * math.exp(-d * t) * (math.cos(w * t) + d / w * math.sin(w * t))


def box(t, mass=1.5, force=6.0, friction=0.3, v0=0.5, dt=0.002):
    return v0 * t + (force / mass - friction * G) * t * (t + dt) / 2


def arm(t, l1=0.4, l2=0.35):
    q1, q2 = 0.3 + 0.8 * t, 0.5 + 1.1 * t
    return l1 * math.cos(q1) + l2 * math.cos(q1 + q2), l1 * math.sin(q1) + l2 * math.sin(q1 + q2)


def bounce(steps, dt=0.002, d=0.9, stiffness=20000.0, damping=20.0, radius=0.1):
    """The discrete steps of a point on a spring and a damper that only push."""
    z, v, heights = 0.6, 0.0, [0.6]
    for _ in range(steps):
        reference = -damping / d * v - stiffness / d * (z - radius)  # K d (z - r) = stiffness/d² d (z - r)
        touches = z < radius and reference + G > 0
        v += dt * (d * reference - (1 - d) * G if touches else -G)
        z += dt * v
        heights.append(z)
    return heights


def main():
    write("moon", ["qpos[height] (m)"], [(t, moon(t)) for t in times(0.05, 30)])
    write("drag", ["qpos[x] (m)", "qpos[z] (m)"], [(t, *drag(t)) for t in times(0.05, 30)])
    write("force", ["qpos[x] (m)", "qpos[z] (m)"], [(t, *drag(t)) for t in times(0.01, 150)])
    write("pendulum", ["qpos[hinge] (rad)"], [(t, pendulum(t)) for t in times(0.05, 40)])
    write("spring", ["qpos[spring] (m)"], [(t, spring(t)) for t in times(0.05, 40)])
    write("box", ["qpos[x] (m)"], [(t, box(t)) for t in times(0.02, 50)])
    write("arm", ["x (m)", "y (m)"], [(t, *arm(t)) for t in times(0.05, 40)])
    write("bounce", ["z (m)"], list(zip(times(0.004, 200), bounce(400)[::2])))


if __name__ == "__main__":
    main()
