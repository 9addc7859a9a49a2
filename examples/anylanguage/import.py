"""Handles Import jobs, whose argument is a file's name: it imports line by line, and continues after a stop, a failure
or a crash with the line after the last one that it has done.

    belay work --exec 'Import=python3 examples/anylanguage/import.py'
    belay push Import '"orders.csv"' --track 24h
    belay find JID          # its result, {"lines": 3}
"""

import json
import os
import sys

(path,) = json.load(sys.stdin)
cursor_file = os.environ["BELAY_CURSOR_FILE"]
with open(cursor_file) as file:
    done = json.loads(file.read() or "0")  # empty in the first run

with open(path) as lines:
    for number, line in enumerate(lines, 1):
        if number <= done:
            continue
        print("import", line, end="")  # the work; if the worker is killed, a few seconds of it are repeated
        with open(cursor_file, "w") as file:
            json.dump(number, file)
        done = number

with open(os.environ["BELAY_RESULT_FILE"], "w") as file:
    json.dump({"lines": done}, file)
