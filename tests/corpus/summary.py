"""Sums up the table that corpus_sweep wrote: what reaches the goal, package by package, what does not and why, failures by kind.

  python3 summary.py SWEEP.csv [FOLDER]     FOLDER: of the packages, so that those without models are named too
"""
import collections
import csv
import pathlib
import sys


def main():
    with open(sys.argv[1], newline="") as file:
        rows = list(csv.DictReader(file))
    judged = [row for row in rows if row["judged"] and int(row["judged"]) > 0]
    right = [row for row in judged if int(row["over"]) == 0]
    models = {row["model"] for row in rows}
    wrong = {row["model"] for row in rows if row not in right}
    entries = sum(int(row["judged"]) for row in judged)
    over = sum(int(row["over"]) for row in judged)
    print(f"{len(models)} models, {len(models - wrong)} of them right at every state; {len(rows)} states, {len(right)} right")
    print(f"{entries} entries judged, {over} beyond the goal; {sum(int(row['nan'] or 0) for row in rows)} not finite")

    print(f"\n{'package':<24} {'models':>6} {'states':>6} {'entries':>10} {'over':>6} {'not finite':>10} {'analytic':>9}")
    packages = sorted({row["model"].split("/")[0] for row in rows} | {path.name for folder in sys.argv[2:] for path in pathlib.Path(folder).iterdir()})
    for package in packages:
        mine = [row for row in rows if row["model"].split("/")[0] == package]
        if not mine:
            print(f"{package:<24} {0:>6}")
            continue
        count = lambda key: sum(int(row[key] or 0) for row in mine)
        print(f"{package:<24} {len({row['model'] for row in mine}):>6} {len(mine):>6} {count('judged'):>10} {count('over'):>6} "
              f"{count('nan'):>10} {sum(row['level'] == 'analytic' for row in mine):>9}")

    levels = collections.Counter(row["level"] for row in judged)
    print("levels:", ", ".join(f"{name} {count}" for name, count in levels.most_common()))
    for title, key in (("not analytic because of", "reasons"), ("failures", "failure")):
        kinds = collections.defaultdict(set)
        for row in rows:
            for reason in (row[key] or "").split("; "):
                if reason:
                    # names of elements vary, the kind does not
                    kinds[reason.split(" '")[0]].add(row["model"])
        print(f"\n{title}:")
        for reason, names in sorted(kinds.items(), key=lambda item: -len(item[1]))[:40]:
            print(f"  {len(names):4d}  {reason[:110]}  ({sorted(names)[0]})")

    print("\nbeyond the goal:")
    for row in sorted((row for row in judged if int(row["over"])), key=lambda row: -float(row["worst"])):
        print(f"  {row['worst']}  {row['model']}, {row['state']}: {row['over']} of {row['judged']}; {row['entry']}; {row['reasons'][:160]}")


if __name__ == "__main__":
    main()
