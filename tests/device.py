"""Where kernels of a GPU are tested."""

import torch

# A GPU where there is one; elsewhere they are interpreted, see tests/conftest.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
