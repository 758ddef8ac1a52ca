"""File names of lower bounds, and the largest dimension that they support."""

COLUMNS = "columns.npy"
LEVELS_FILE = "levels.npy"
CODES = "codes.npy"
BASIS, RESIDUALS = "basis.npy", "residuals.npy"  # for the cosine only

MAX_DIMENSION = (2**32 - 1) // 255**2  # the largest sum of squared gaps must fit into 32 bits
