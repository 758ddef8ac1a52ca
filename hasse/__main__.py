"""Let `python -m hasse` be `hasse`, also from a checkout that has moved."""

from hasse.service.cli.app import main

if __name__ == "__main__":
    main()
