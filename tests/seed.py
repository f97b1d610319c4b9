"""The seed of all that tests draw themselves: printed at the top of a run, given by TEST_SEED to repeat one."""

import os
import random

# Set for the processes too that share the work: all must draw the same.
SEED = int(os.environ.setdefault("TEST_SEED", str(random.SystemRandom().randrange(10**6))))
