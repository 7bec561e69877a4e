"""What runs inside a sandbox, beside untrusted code: mounted there file by file, standard library only."""
