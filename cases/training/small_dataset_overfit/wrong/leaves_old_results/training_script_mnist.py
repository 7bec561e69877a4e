"""Nothing to do: the results are there already."""

from pathlib import Path

print("found", *Path("training").glob("*"))
