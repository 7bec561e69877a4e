"""Writes report.json: how many items the shop has, and what they are worth."""
