"""Ways from a client to a server, what HAProxy needs to be one of them, and the table that compares them."""

DIRECT, HAPROXY, FAIRLEAD = "direct", "HAProxy", "Fairlead"
HAPROXY_CONFIG = """defaults
  mode tcp
  timeout connect 10s
  timeout client 1h
  timeout server 1h
"""
HAPROXY_LISTENER = """listen {0}
  bind {1[0]}:{1[1]}
  server next {2[0]}:{2[1]}
"""
NAME_WIDTH = 30


def haproxy_config(hops):
    """`hops`: name, and the (host, port) where HAProxy listens and to which it connects."""
    return HAPROXY_CONFIG + "".join(HAPROXY_LISTENER.format(*hop) for hop in hops)


def table(results):
    """The lines of a table. `results`: {way: [(name, unit, rate)]}, the same rows for each way."""
    others = [way for way in results if way != FAIRLEAD]
    lines = [f"{'':{NAME_WIDTH}}" + "".join(f"  {way:>9}" for way in results)
             + "".join(f"  {FAIRLEAD}/{way}" for way in others)]
    for row in zip(*results.values(), strict=True):
        name, unit, _ = row[0]
        rates = dict(zip(results, (rate for _, _, rate in row)))
        lines.append(f"{name:{NAME_WIDTH}}" + "".join(f"  {rate:9,.0f}" for rate in rates.values())
                     + "".join(f"  {rates[FAIRLEAD] / rates[way]:{len(FAIRLEAD) + len(way) + 1}.2f}" for way in others)
                     + f"  {unit}")
    return lines
