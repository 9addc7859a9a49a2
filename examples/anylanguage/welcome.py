"""Handles WelcomeEmail jobs for `belay work --exec`: see main.go.

Standard input is the job's arguments as a JSON array. BELAY_JID stays the same when a job is run again, so it tells
whether the work was done before. At SIGTERM there is half a second to clean up: the job goes back to its queue.
"""

import json
import os
import sys

user_id, template = json.load(sys.stdin)
if user_id <= 0:
    sys.exit(f"there is no user {user_id}")  # status 1, and this on standard error: the job's error message

outbox, jid = sys.argv[1], os.environ["BELAY_JID"]
if os.path.exists(outbox):
    with open(outbox) as sent:
        if any(line.startswith(jid) for line in sent):
            sys.exit(0)  # a worker died after it was sent and before that was known
with open(outbox, "a") as sent:
    sent.write(f"{jid} {template} welcome to user {user_id}\n")
