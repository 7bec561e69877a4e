"""Asks the program one question after the other, in one folder."""

import shutil
import subprocess
import sys

for number, question in enumerate(sys.argv[1:], 1):
    done = subprocess.run([sys.executable, "literature_review.py", question], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    shutil.copyfile("report.json", f"report-{number}.json")
