"""The seed of all random values in tests. It is printed at the start of a run. TEST_SEED repeats that run.

Under CI it is always the same, so that a failure is due to the change under test. People's runs and `make test-long`
draw new values every time.
"""

import os
import random

CI = os.environ.get("CI") == "true"
_FIRST = 171117 if CI else random.SystemRandom().randrange(10**6)

# Set for the processes too that share the work: all must draw the same.
SEED = int(os.environ.setdefault("TEST_SEED", str(_FIRST)))
