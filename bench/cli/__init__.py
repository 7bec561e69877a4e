"""The command line: verbs that each import what they need when called."""
