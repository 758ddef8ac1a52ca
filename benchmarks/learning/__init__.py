"""Speed of training and encoding beside plain PyTorch."""
