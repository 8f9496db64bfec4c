"""Experiments: workloads of the papers, simulated settings, and what comes out of them. Nothing that runs needs it."""
