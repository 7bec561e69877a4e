"""Copies a folder into the store of the rehearsal, as actions/upload-artifact takes it."""

import os
import re
import shutil
import sys
from pathlib import Path

lines = [line.strip() for line in os.environ["FOUND"].splitlines() if line.strip()]
folder = Path(next(line for line in lines if not line.startswith("!")))
left_out = [
    re.compile(re.escape(line[1:]).replace(r"/\*\*/", "/(?:.*/)?").replace(r"\*\*", ".*") + "$")
    for line in lines
    if line.startswith("!")
]
target = Path(os.environ["ARTIFACTS"], os.environ["GITHUB_RUN_ID"], os.environ["NAME"])
if re.search(r'[":<>|*?\r\n\\/]', os.environ["NAME"]):
    sys.exit(f"the artifact name is not valid: {os.environ['NAME']}")
files = [
    path
    for path in sorted(folder.rglob("*"))
    if path.is_file()
    and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    and not any(pattern.match(str(path)) for pattern in left_out)
]
if refused := [path for path in files if re.search(r'[":<>|*?\r\n]', str(path.relative_to(folder)))]:
    sys.exit(f"The path for one of the files in artifact is not valid: {str(refused[0])!r}")
if not files:
    sys.exit(os.environ["NOTHING"] == "error" and f"no files were found in {folder}")
if target.exists() and os.environ["OVERWRITE"] != "true":
    sys.exit("Failed to CreateArtifact: (409) Conflict: an artifact with this name already exists on the workflow run")
shutil.rmtree(target, ignore_errors=True)
for path in files:
    place = target / path.relative_to(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)
