"""Sums up the table that corpus_sweep wrote: what reaches the goal, package by package, what does not and why, failures by kind.

  python3 summary.py SWEEP.csv [FOLDER]     FOLDER: of the packages, so that those without models are named too
"""
import collections
import csv
import pathlib
import sys

LOAD = "load"  # the state of a file that is no model to judge


def kind(text):
    """Names of elements, files and numbers vary, the kind does not."""
    words = text.split("'")
    text = "'…'".join(words[::2]) if len(words) > 2 else text
    return " ".join("#" if word.strip("().,:").replace(".", "").isdigit() else word for word in text.split())


def by_kind(title, rows, reasons, limit=40):
    kinds = collections.defaultdict(set)
    for row in rows:
        for reason in reasons(row):
            kinds[kind(reason)].add(row["model"])
    if not kinds:
        return
    print(f"\n{title}:")
    for reason, names in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))[:limit]:
        print(f"  {len(names):4d}  {reason[:150]}  ({sorted(names)[0]})")


def count(rows, key):
    return sum(int(row[key] or 0) for row in rows)


def print_packages(rows, folders):
    print(f"\n{'package':<24} {'models':>6} {'states':>6} {'entries':>11} {'over':>6} {'not finite':>10} {'not judged':>10} {'analytic':>8} "
          f"{'no model':>8}")
    packages = {row["model"].split("/")[0] for row in rows} | {path.name for folder in folders for path in pathlib.Path(folder).iterdir()}
    groups = [(name, [row for row in rows if row["model"].split("/")[0] == name]) for name in sorted(packages)]
    for name, mine in groups + [("all", rows)]:
        states = [row for row in mine if row["state"] != LOAD]
        judged = [row for row in states if int(row["judged"] or 0) > 0]
        print(f"{name:<24} {len({row['model'] for row in states}):>6} {len(states):>6} {count(judged, 'judged'):>11} {count(judged, 'over'):>6} "
              f"{count(states, 'nan'):>10} {len(states) - len(judged):>10} {sum(row['level'] == 'analytic' for row in states):>8} "
              f"{len({row['model'] for row in mine if row['state'] == LOAD}):>8}")


def main():
    with open(sys.argv[1], newline="") as file:
        table = list(csv.DictReader(file))
    rows = [row for row in table if row["state"] != LOAD]
    judged = [row for row in rows if int(row["judged"] or 0) > 0]
    over = [row for row in judged if int(row["over"])]
    crashed = [row for row in rows if row["state"] == "crash"]
    models = {row["model"] for row in rows}
    wrong = {row["model"] for row in over + crashed} | {row["model"] for row in rows if row not in judged}
    print(f"{len(models)} models, {len(models - wrong)} of them right at every state; {len(judged)} states judged, {len(judged) - len(over)} right")
    print(f"{count(judged, 'judged')} entries judged, {count(judged, 'over')} beyond the goal, "
          f"{count([row for row in over if row['label'] == 'smooth'], 'over')} of them in states labelled smooth; {count(rows, 'nan')} not finite")
    print_packages(table, sys.argv[2:])
    incomplete = sum(row["complete"] == "0" for row in judged)
    print(f"\nmodels: with something that moves; not judged: states; no model: files. {incomplete} states are judged in part, for want of time")

    levels = collections.Counter(row["level"] for row in judged)
    print("levels:", ", ".join(f"{name} {number}" for name, number in levels.most_common()))
    by_kind("not analytic because of, in models", rows, lambda row: [reason for reason in (row["reasons"] or "").split("; ") if reason])
    by_kind("not judged, in models", [row for row in rows if row["failure"]], lambda row: [row["failure"]])
    unmeasured = [row for row in rows if not row["failure"] and row not in judged]
    by_kind("no entry that the reference knows, in models", unmeasured, lambda row: [f"{row['nonsmooth']} columns without reference"])
    by_kind("no model, in files", [row for row in table if row["state"] == LOAD], lambda row: [row["failure"]])

    timed = [row for row in rows if row["milliseconds"]]
    for title, key, unit in (("slowest derivatives", "milliseconds", "ms"), ("most memory", "megabytes", "MB")):
        most = {}
        for row in timed:
            most[row["model"]] = max(most.get(row["model"], 0), float(row[key]))
        print(f"\n{title}:")
        for model, value in sorted(most.items(), key=lambda item: -item[1])[:5]:
            print(f"  {value:9.4g} {unit}  {model}")

    if over:
        print("\nbeyond the goal, worst first, in parts of the block's largest entry:")
    for row in sorted(over, key=lambda row: -float(row["worst"])):
        print(f"  {row['worst']}  {row['model']}, {row['state']} ({row['label']}): {row['over']} of {row['judged']}; {row['entry']}; {row['reasons'][:160]}")
    return 1 if over or crashed or count(rows, "nan") else 0


if __name__ == "__main__":
    sys.exit(main())
