"""Creates the tables and the picture of scale.py from its samples."""

import statistics

TABLES = {
    "connections": ("Idle connections through one pair", {
        "connections": "connections", "groups": "groups", "over_smc": "over SMC-R",
        "setups_per_s": "set-ups/s", "kib_per_connection": "KiB each, both proxies",
        "idle_cpu_percent": "idle CPU %"}),
    "short": ("Idle connections that have not earned SMC-R", {
        "connections": "connections", "over_smc": "over SMC-R", "setups_per_s": "set-ups/s",
        "kib_per_connection": "KiB each, both proxies", "idle_cpu_percent": "idle CPU %"}),
    "active": ("Streams at once, one way", {
        "count": "streams", "target": "target", "rate": "GB/s", "low": "lowest",
        "high": "highest", "to_fewest": "to the fewest"}),
    "clients": ("redis clients at once, GET", {
        "count": "clients", "target": "target", "rate": "thousand/s", "low": "lowest",
        "high": "highest", "to_fewest": "to the fewest"}),
    "churn": ("Short connections, connect to close", {
        "second": "second", "connections_per_s": "connections/s", "worst_ms": "worst ms",
        "cpu_us_per_connection": "CPU us each", "memory_mib": "MiB, both proxies"}),
    "failover": ("A port that goes down under load: the longest wait of any connection for an answer", {
        "what": "port of", "times": "times", "median_ms": "median ms", "high_ms": "longest ms"}),
    "peers": ("Peers of one proxy", {
        "peers": "peers", "groups": "groups", "memory_mib": "MiB", "kib_per_peer": "KiB a peer",
        "seconds_per_peer": "s to add one", "idle_cpu_percent": "idle CPU %"}),
}


def active_rows(samples):
    """Rows of {(target, connections at once): [rate]}; the ratio is to the target's own fewest."""
    fewest = min(count for _, count in samples)
    rows = []
    for (target, count), found in sorted(samples.items()):
        base = statistics.median(samples[target, fewest])
        rows.append({"count": count, "target": target, "rate": statistics.median(found),
                     "low": min(found), "high": max(found),
                     "to_fewest": statistics.median(found) / base})
    return rows


def failover_rows(samples):
    """Rows of {failed port: [longest wait, ms]}."""
    return [{"what": what, "times": len(found), "median_ms": statistics.median(found),
             "high_ms": max(found)} for what, found in samples.items()]


def cell(value):
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def table(part, rows):
    """Lines of a Markdown table, which can be copied into a page unchanged."""
    columns = TABLES[part][1]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(cell(row[name]) for name in columns) + " |" for row in rows]


def print_tables(report):
    about = report["about"]
    print(f"commit {about['commit']}, {about['date']}, kernel {about['kernel']}, "
          f"{about['cpus']} CPUs\ncommand: {about['command']}")
    for part, (title, _) in TABLES.items():
        if part in report:
            print("\n".join(["", title, "", *table(part, report[part])]))


def draw(path, report):
    """Draws the parts as curves; prints a message if the library is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: the package python3-matplotlib is not installed")
        return
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "fairlead", "font.size": 9})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6), constrained_layout=True)
    curves = (
        ("connections", "connections", "kib_per_connection", "KiB a connection, both proxies"),
        ("connections", "connections", "setups_per_s", "connections set up per second"),
        ("connections", "connections", "idle_cpu_percent", "CPU of both idle proxies, %"),
        ("peers", "peers", "memory_mib", "memory of one proxy, MiB"),
        ("churn", "second", "memory_mib", "memory under churn, MiB"),
    )
    for axis, (part, x, y, title) in zip(axes.flat, curves):
        rows = report.get(part, [])
        axis.plot([row[x] for row in rows], [row[y] for row in rows], marker="o", markersize=3)
        label(axis, x, title)
    for target in sorted({row["target"] for row in report.get("clients", [])}):
        rows = [row for row in report["clients"] if row["target"] == target]
        axes.flat[-1].plot([row["count"] for row in rows], [row["rate"] for row in rows],
                           marker="o", markersize=3, label=target)
        axes.flat[-1].set_xscale("log")
        axes.flat[-1].legend()
    label(axes.flat[-1], "redis clients", "thousand requests/s")
    figure.savefig(path, metadata={"Date": None})
    print(f"picture: {path}")


def label(axis, x, title):
    axis.set_xlabel(x)
    axis.set_title(title, fontsize=9)
    axis.set_ylim(0, axis.get_ylim()[1] * 1.1)
    axis.grid(alpha=0.3)
