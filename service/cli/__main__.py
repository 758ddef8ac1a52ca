"""Let `python -m service.cli` be `hasse`, also from a checkout that has moved."""

from service.cli.app import main

if __name__ == "__main__":
    main()
