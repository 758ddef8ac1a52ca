"""What holds for every test."""

import os

# Before torch is imported: models in tests are tiny, and the threads of one operation would
# mostly wait for each other, which on a busy machine takes ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
