"""The chart's dashboard, with its queries sent to a real Prometheus instead of Grafana."""
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from free_port import free_port  # pylint: disable=wrong-import-position

FILE = Path(__file__).parents[2] / "helm" / "fairlead" / "files" / "dashboard.json"
PANELS = json.loads(FILE.read_text())["panels"]


def expressions(panel, rate_interval="5m"):
    """The query with the variables that Grafana replaces."""
    return [target["expr"].replace("$__rate_interval", rate_interval).replace("$namespace", ".*")
            for target in panel["targets"]]


class Prometheus:
    def __init__(self, folder, targets, interval_seconds, rule_files=()):
        """`targets`: address of /metrics, and the labels that a PodMonitor gives it. JSON is YAML."""
        config = folder / "prometheus.yaml"
        config.write_text(json.dumps({"rule_files": list(rule_files), "scrape_configs": [{
            "job_name": "fairlead", "scrape_interval": f"{interval_seconds}s", "scrape_timeout": f"{interval_seconds}s",
            "static_configs": [{"targets": [address], "labels": labels} for address, labels in targets]}]}))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, rows="result", **query):
        """Rows of the answer; none while Prometheus starts."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as reply:
                return json.load(reply)["data"][rows]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise AssertionError(error.read().decode()) from None
            return []
        except OSError:
            return []


def legend(form, labels):
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match.group(1), ""), form)


def draw(prometheus, seconds, rate_interval, path):
    """Draws the panels at their positions from the answers of Prometheus; it does not imitate Grafana."""
    from matplotlib import figure  # pylint: disable=import-outside-toplevel
    end = time.time()
    begin = end - seconds
    rows = 1 + max(panel["gridPos"]["y"] // panel["gridPos"]["h"] for panel in PANELS)
    picture = figure.Figure(figsize=(13, 2.6 * rows), layout="constrained")
    grid = picture.add_gridspec(rows, 2)
    for panel in PANELS:
        place = panel["gridPos"]
        axes = picture.add_subplot(grid[place["y"] // place["h"], place["x"] // place["w"]])
        axes.set_title(panel["title"], fontsize=9, loc="left")
        unit = panel["fieldConfig"]["defaults"].get("unit", "")
        axes.set_ylabel("" if unit == "short" else unit, fontsize=7)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        for target, expression in zip(panel["targets"], expressions(panel, rate_interval)):
            for row in prometheus.ask("query_range", query=expression, start=begin, end=end, step=1):
                points = [(at - begin, float(value)) for at, value in row["values"]]
                axes.plot(*zip(*points), linewidth=1, label=legend(target["legendFormat"], row["metric"]))
        axes.set_xlim(0, seconds)
        if axes.lines:
            top = max(1e-3, 1.3 * axes.dataLim.ymax)  # room for the legend
            axes.set_ylim(-0.03 * top, top)  # and for a line at zero
            axes.legend(fontsize=6, ncols=2, loc="upper right")
    picture.savefig(path, dpi=70)
