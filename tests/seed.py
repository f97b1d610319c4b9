"""The seed of all random values in tests. It is printed at the start of a run. TEST_SEED repeats that run."""

import os
import random

# Set for the processes too that share the work: all must draw the same.
SEED = int(os.environ.setdefault("TEST_SEED", str(random.SystemRandom().randrange(10**6))))
