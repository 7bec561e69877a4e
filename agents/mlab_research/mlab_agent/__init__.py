"""A research agent that plans, acts and checks its facts, after the one of MLAgentBench."""
