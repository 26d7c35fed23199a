"""For each model that follows traces: how they are made of a recording, and how they are altered by hand."""
import failover_traces

TRACES = {"failover": failover_traces.traces}
ALTERATIONS = {"failover": failover_traces.ALTERATIONS}
