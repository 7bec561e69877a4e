raise SystemExit("the stranger's own package was imported")
