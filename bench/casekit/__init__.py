"""casekit."""
