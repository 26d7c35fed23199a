"""Data of /proc about processes and the machine. CPU times are in seconds."""

import glob
import os
import re

TICKS = os.sysconf("SC_CLK_TCK")


def read(path):
    """The text of a file of /proc; empty if the process has ended."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def tree(pid):
    """`pid` and all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        for path in glob.glob(f"/proc/{current}/task/*/children"):
            waiting += [int(child) for child in read(path).split()]
    return found


def all_pids(processes):
    return [pid for process in processes for pid in tree(process.pid)]


def on_cpu(processes):
    """CPU time to the nanosecond and voluntary switches, of threads that still live."""
    nanoseconds = switches = 0
    for pid in all_pids(processes):
        for task in glob.glob(f"/proc/{pid}/task/*"):
            schedstat = read(task + "/schedstat").split()
            match = re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", read(task + "/status"))
            if schedstat and match:
                nanoseconds += int(schedstat[0])
                switches += int(match.group(1))
    return nanoseconds * 1e-9, switches


def whole_cpu(processes):
    """CPU time in ticks of 10 ms, threads that have ended included."""
    ticks = 0
    for pid in all_pids(processes):
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def machine():
    """Busy and stolen CPU time of all CPUs together."""
    user, nice, system, _, _, irq, softirq, steal = (
        int(value) / TICKS for value in read("/proc/stat").split("\n", 1)[0].split()[1:9])
    return {"busy": user + nice + system + irq + softirq, "steal": steal}


def received_bytes(pid, device):
    """By a network device, as the network namespace of `pid` sees it."""
    match = re.search(rf"\n\s*{device}:\s*(\d+)", read(f"/proc/{pid}/net/dev"))
    return int(match.group(1)) if match else 0


def proportional_kb(processes, kinds="Pss"):
    """Memory, shared pages divided by the number of their users."""
    return sum(int(count) for pid in all_pids(processes)
               for count in re.findall(rf"\n(?:{kinds}):\s+(\d+)", read(f"/proc/{pid}/smaps_rollup")))


def proportional_data_kb(processes):
    """The same without programs and libraries, whose part for one process falls with each other."""
    return proportional_kb(processes, "Pss_Anon|Pss_Shmem")


def machine_memory_kb():
    fields = dict(line.split(":") for line in read("/proc/meminfo").splitlines())
    return {name: int(fields[name].split()[0]) for name in ("MemAvailable", "Slab")}
