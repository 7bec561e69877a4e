"""Trying to cheat every case in every way that is not the case's own: `cases verify --attacks`."""
