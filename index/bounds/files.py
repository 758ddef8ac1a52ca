"""Names of the files of lower bounds, and which segments can have them."""

COLUMNS = "columns.npy"
LEVELS_FILE = "levels.npy"
CODES = "codes.npy"
BASIS, RESIDUALS = "basis.npy", "residuals.npy"  # of the cosine

MAX_DIMENSION = (2**32 - 1) // 255**2  # the largest sum of squared gaps has to fit into 32 bits
